"""The part of the tuned models that this installation manages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.controller.fleet import Fleet, TunedModel
from outrider.controller.store import Key


class OwnFleet:
    """The part of a fleet that this installation manages. manages: whether it manages a namespace."""

    def __init__(self, fleet: Fleet, manages: Callable[[str], bool]) -> None:
        self._fleet = fleet
        self._manages = manages

    def tuned_models(self) -> Sequence[TunedModel]:
        """Models that no other operator manages."""
        return [model for model in self._fleet.tuned_models() if self._manages(model.namespace)]

    def tuned_model(self, key: Key) -> TunedModel | None:
        """See `Fleet.tuned_model`."""
        return self._fleet.tuned_model(key) if self._manages(key.namespace) else None
