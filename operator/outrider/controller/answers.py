"""What the API server answers to a write of a model's status."""

from __future__ import annotations

from collections.abc import Callable

from outrider.cluster.resources import JsonObject
from outrider.controller.store import Key, Store, key_of
from outrider.controller.watch import cannot_wait


class Answers:
    """Stores them.

    An answer is the whole object as it stands, so it may bring what somebody has just changed; the watch,
    which brings the same a moment later, then has nothing new to tell.

    overtaken: called with a model in whose answer there was such a change.
    """

    def __init__(self, store: Store, overtaken: Callable[[Key], None] = lambda _: None) -> None:
        self._store = store
        self._overtaken = overtaken

    def keep(self, answer: JsonObject, key: Key) -> None:
        """Store the answer about this model."""
        before = self._store.models.get(key)
        after = self._store.models.put(answer)
        if after is not None and cannot_wait(before, after):
            self._overtaken(key_of(after.metadata))
