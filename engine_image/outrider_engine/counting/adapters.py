"""Drafts by LoRA adapter: a drafter knows the base model alone, so each adapter has an acceptance of its own.

Pure except for its own sums. Runs on the engine core's thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

MAX_ADAPTERS = 32
"""Adapters with sums of their own. vLLM can load more while it runs, and each has three series."""
OTHERS = "other adapters"
"""The name of all further adapters together. Outrider's names of adapters have no blanks."""
_MAX_NAME = 253


class AdapterSums(TypedDict):
    """Sums over the requests of one adapter. ``drafts``: verified drafts, one per request and step."""

    adapter: str
    drafts: int
    draftTokens: int
    acceptedTokens: int


class AdapterDrafts:
    """What the requests of each adapter, and of the base model, had verified and accepted.

    base: the name of the model without an adapter; None where the engine serves no adapters.
    """

    def __init__(self, base: str | None) -> None:
        self._base = base
        self._sums: dict[str, AdapterSums] = {}
        self._of_request: dict[str, str] = {}

    @property
    def active(self) -> bool:
        """Whether drafts are counted by adapter."""
        return self._base is not None

    def disable(self) -> None:
        """Count no more. The sums stay as they are."""
        self._base = None
        self._of_request.clear()

    def admit(self, request_id: str, adapter: str | None) -> None:
        """A request arrived. adapter: None for the base model."""
        if adapter is not None and self.active:
            self._of_request[request_id] = self._named(adapter[:_MAX_NAME])

    def forget(self, gone: Iterable[str]) -> None:
        """These requests ended."""
        for request_id in gone:
            self._of_request.pop(request_id, None)

    def counted(self, request_id: str, drafts: int, accepted: int) -> None:
        """vLLM counted the draft of a request in one step."""
        if self._base is None or not drafts:
            return
        sums = self._sums_of(self._of_request.get(request_id, self._base))
        sums["drafts"] += 1
        sums["draftTokens"] += drafts
        sums["acceptedTokens"] += accepted

    def sums(self) -> list[AdapterSums]:
        """One entry for each name that had a request with an adapter or a draft."""
        return [AdapterSums(**sums) for sums in self._sums.values()]

    def _named(self, adapter: str) -> str:
        known = adapter in self._sums or len(self._sums.keys() - {self._base, OTHERS}) < MAX_ADAPTERS
        return self._sums_of(adapter if known else OTHERS)["adapter"]

    def _sums_of(self, name: str) -> AdapterSums:
        if name not in self._sums:
            self._sums[name] = AdapterSums(adapter=name, drafts=0, draftTokens=0, acceptedTokens=0)
        return self._sums[name]
