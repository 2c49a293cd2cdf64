"""A tuning loop that tunes nothing: what is asked of it can be read off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from outrider.controller.fleet import Fleet
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.stored import Key
from outrider.controller.tune.api_server import ApiServer
from outrider.controller.tune.model_tuner import Engines
from outrider.controller.tune.timing import Timing
from outrider.controller.tune.tuning_loop import Observability
from outrider.telemetry.source import MetricsSource


class FakeLoop:
    """Runs until cancelled; ``fails`` is raised by those that are to fail, one after the other."""

    made: list[FakeLoop]
    fails: list[Exception]
    before_failing: Callable[[OwnMetrics], None]
    """What a loop shows before it fails."""
    clings: asyncio.Event | None
    """Until it is set, a loop does not end although it was asked to."""

    def __init__(
        self,
        fleet: Fleet,
        _source: MetricsSource,
        engines: Engines,
        *_: ApiServer | Timing,
        observability: Observability,
    ) -> None:
        self._fleet = fleet
        self.engines = engines
        self.metrics = observability.metrics
        self.began_at = asyncio.get_running_loop().time()
        self.looked: list[Key] = []
        self.ended = False
        self.made.append(self)

    @property
    def models(self) -> list[str]:
        """Those that it would tune at this moment."""
        return [model.name for model in self._fleet.tuned_models()]

    def look_now(self, key: Key) -> None:
        self.looked.append(key)

    async def run(self) -> None:
        if self.fails:
            type(self).before_failing(self.metrics)
            raise self.fails.pop(0)
        try:
            await asyncio.Event().wait()
        finally:
            if self.clings is not None:
                await self.clings.wait()
            self.ended = True


def _nothing(_: OwnMetrics) -> None:
    """By default."""


def a_kind_of_loop() -> type[FakeLoop]:
    """One for each test, so that tests share nothing."""
    return type("Loop", (FakeLoop,), {"made": [], "fails": [], "clings": None, "before_failing": _nothing})
