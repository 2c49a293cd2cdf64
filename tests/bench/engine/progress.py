"""Progress on the screen: each unit as it ends, and what is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from tests.bench.engine.plan import Engine, Unit, seconds_left
from tests.bench.engine.rates import mean, slices_of, whole_pieces
from tests.bench.engine.records import UnitRecord


@dataclass
class Progress:
    """One line per unit, so that a log of it reads as well as the screen."""

    console: Console
    _began: float = field(default_factory=time.monotonic)
    _total: int = 0
    _left: list[Unit] = field(default_factory=list)
    _running: Engine | None = None

    def begin(self, total: int, missing: Sequence[Unit]) -> None:
        """total: units of the plan; missing: those that this run drives."""
        self._total, self._left = total, list(missing)
        if len(missing) < total:
            self.say(f"{total - len(missing)} of {total} units are there from an earlier run")
        self.say(f"{len(missing)} units, about {self._minutes()} min")

    def start(self, unit: Unit) -> None:
        """A unit begins."""
        number = self._total - len(self._left) + 1
        self.say(
            f"{number}/{self._total} {unit.key}: {unit.seconds:.0f} s of load, {self._minutes()} min left"
        )

    def finish(self, unit: Unit, record: UnitRecord) -> None:
        """A unit ended."""
        self._left.remove(unit)
        self._running = unit.engine
        failed = sum(one.failed for stretch in record.stretches for one in stretch.counts)
        told = [_figures(record)]
        told += [f"{failed} requests failed"] if failed else []
        told += [f"{record.restarts} restarts"] if record.restarts else []
        told += [f"{len(record.gaps)} ticks without a window"] if record.gaps else []
        self.say("    " + "; ".join(told))

    def say(self, text: str) -> None:
        """One line that stays."""
        self.console.print(
            f"[{time.monotonic() - self._began:4.0f} s] {text}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def _minutes(self) -> int:
        return max(1, round(seconds_left(self._left, self._running) / 60))


def _figures(record: UnitRecord) -> str:
    if record.slices:
        held = sorted(slices_of([record]).items())
        return "tokens/s: " + ", ".join(f"{arm} {mean(rates) or 0:.0f}" for (_, arm), rates in held)
    phases = (f"{one.load} {mean(whole_pieces(one)) or 0:.0f}" for one in record.stretches)
    return f"tokens/s: {', '.join(phases)}; {len({one.table for one in record.statuses})} tables"
