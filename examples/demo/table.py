"""The table on the screen: one row per phase, and the tuner's last decision."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.demo.phases import Arm
from examples.kit.loads import Load
from examples.kit.records import DecisionSample, StatusSample

PLAIN_PERIOD_SECONDS = 5.0
"""Without a terminal a line this often, and one for each decision."""
DECISIONS_SHOWN = 4

COMPUTED, SIMULATED = "computed", "simulated"
"""Source of a row's figures: engines that compute, or simulated engines."""
TITLES = {
    Arm.OUTRIDER: "Outrider",
    Arm.NO_DRAFTS: "K = 0 held",
    Arm.LONGEST_DRAFTS: "largest K held",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    elapsed: float
    arm: Arm
    engine: str
    load: Load
    tokens_per_second: float
    acceptance_rate: float | None
    table: str | None

    def continues(self, newer: Row) -> bool:
        """Whether a newer row is of the same phase."""
        return (self.arm, self.engine, self.load) == (newer.arm, newer.engine, newer.load)

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        return (
            f"{int(self.elapsed) // 60}:{int(self.elapsed) % 60:02d}",
            TITLES[self.arm],
            self.engine,
            str(self.load.prompts),
            str(self.load.streams),
            f"{self.tokens_per_second:.0f}",
            "-" if self.acceptance_rate is None else f"{self.acceptance_rate:.2f}",
            self.table or "-",
        )


HEADINGS = ("time", "arm", "engine", "prompts", "streams", "tokens/s", "acceptance", "schedule in force")


@dataclass
class Screen:
    """Progress on the screen: a table on a terminal, plain lines elsewhere.

    engine: what a row's figures come from, computed or simulated.
    """

    console: Console
    engine: str = COMPUTED
    started: float = field(default_factory=time.monotonic)
    _rows: list[Row] = field(default_factory=list)
    _decisions: list[DecisionSample] = field(default_factory=list)
    _live: Live | None = None
    _printed: float = float("-inf")

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self._live = Live(self._view(), console=self.console, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """One line that stays."""
        self.console.print(
            f"[{time.monotonic() - self.started:4.0f} s] {text}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def show(self, arm: Arm, load: Load, tokens_per_second: float, seen: StatusSample | None) -> None:
        """The newest figures of a phase."""
        row = Row(
            elapsed=time.monotonic() - self.started,
            arm=arm,
            engine=self.engine,
            load=load,
            tokens_per_second=tokens_per_second,
            acceptance_rate=seen.acceptance_rate if seen else None,
            table=seen.table if seen else None,
        )
        if self._rows and self._rows[-1].continues(row):
            self._rows.pop()
        self._rows.append(row)
        if self._live is not None:
            self._live.update(self._view())
        elif row.elapsed - self._printed >= PLAIN_PERIOD_SECONDS:
            self._printed = row.elapsed
            names = ("", "", "", "", " streams", " tok/s", " accepted", "")
            self.say("  ".join(cell + name for cell, name in zip(row.cells()[1:], names[1:], strict=True)))

    def decide(self, decision: DecisionSample) -> None:
        """A decision of the tuner, with its words."""
        self._decisions.append(decision)
        if self._live is None:
            self.say(_told(decision))

    def _view(self) -> Group:
        table = Table(*HEADINGS, title="Outrider demo", title_justify="left")
        for row in self._rows[-20:]:
            table.add_row(*row.cells(), style="bold" if row.arm is Arm.OUTRIDER else "dim")
        return Group(table, *(Text(_told(one)) for one in self._decisions[-DECISIONS_SHOWN:]))


def _told(decision: DecisionSample) -> str:
    time = datetime.fromtimestamp(decision.time, UTC)
    change = f"{decision.from_table} -> {decision.to_table}"
    return f"{time:%H:%M:%S}  {change}  {decision.reason}: {decision.message}"
