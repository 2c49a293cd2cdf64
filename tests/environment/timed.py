"""Run the parts of a long target one after the other, and print the minutes of each beside its budget.

    python3 tests/environment/timed.py cluster check unit

Each part is a target of the Makefile. The first that fails is the last that runs, and its exit status
is that of the whole. A budget that is exceeded fails nothing: it is there so that growth is seen.

Plain Python 3.11 without packages, because it runs before anything is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Part:
    """One part as it ran. status: its exit status."""

    name: str
    seconds: float
    status: int


def run(names: Sequence[str], execute: Callable[[str], int], clock: Callable[[], float]) -> list[Part]:
    """The parts that ran, in their order: all of them, or up to the first that failed."""
    ran: list[Part] = []
    for name in names:
        began = clock()
        status = execute(name)
        ran.append(Part(name, clock() - began, status))
        if status != 0:
            break
    return ran


def table(ran: Sequence[Part], budget: Mapping[str, float]) -> str:
    """One line for each part and one for all of them, in minutes. budget: minutes by part."""
    lines = [f"{'part':<16}{'minutes':>9}{'budget':>9}"]
    lines += [_line(part.name, part.seconds, budget.get(part.name), _remark(part)) for part in ran]
    known = [budget[part.name] for part in ran if part.name in budget]
    total = sum(known) if len(known) == len(ran) else None
    lines.append(_line("together", sum(part.seconds for part in ran), total, ""))
    return "\n".join(lines)


def _line(name: str, seconds: float, budget: float | None, remark: str) -> str:
    minutes = seconds / 60
    allowed = "-" if budget is None else f"{budget:.1f}"
    over = "over budget" if budget is not None and minutes > budget else ""
    remarks = ", ".join(one for one in (remark, over) if one)
    return f"{name:<16}{minutes:>9.1f}{allowed:>9}  {remarks}".rstrip()


def _remark(part: Part) -> str:
    return "" if part.status == 0 else "failed"


def read_budget(pyproject: str) -> Mapping[str, float]:
    """Minutes by part, from the text of pyproject.toml."""
    budget: Mapping[str, float] = tomllib.loads(pyproject)["tool"]["outrider"]["test-minutes"]
    return budget


def _make(target: str) -> int:
    """The exit status of a part, in a shell's form if a signal ended it."""
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", target]
    process = subprocess.Popen(command, cwd=ROOT)
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            # The part was interrupted as well, and ends when its tests have cleaned up.
            continue
        return status if status >= 0 else 128 - status


def main(names: Sequence[str]) -> int:
    """The exit status of the part that ran last: 0 unless it failed."""
    budget = read_budget((ROOT / "pyproject.toml").read_text())
    ran = run(names, _make, time.monotonic)
    print(f"\n{table(ran, budget)}", flush=True)
    return ran[-1].status if ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
