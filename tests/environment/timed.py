"""Run the parts of a long target, and print the minutes of each beside its budget.

    python3 tests/environment/timed.py cluster check unit test-attack+test-faults

Each part is a target of the Makefile. Parts run one after the other, those joined by a plus beside each
other. The first that fails ends the run when those beside it have ended, and its exit status is that of the
whole. A budget that is exceeded fails nothing: it is there so that growth is seen.

The output of parts that run beside each other appears part by part, when each has ended.

Plain Python 3.11 without packages, because it runs before anything is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
TOGETHER = "together"
"""What the whole is called, beside its parts."""
LOOKS = 0.2
"""Seconds between two looks at parts that run."""
SIGN_OF_LIFE = 60.0
"""Seconds between two lines that say what runs beside each other."""


@dataclass(frozen=True)
class Part:
    """One part as it ran. status: its exit status."""

    name: str
    seconds: float
    status: int


def run(steps: Sequence[str]) -> list[Part]:
    """The parts that ran, in the order of their ends: all of them, or up to the first step that failed."""
    ran: list[Part] = []
    for step in steps:
        names = step.split("+")
        ran += _alone(step) if len(names) == 1 else _beside_each_other(names)
        if any(part.status for part in ran):
            break
    return ran


def _alone(name: str) -> list[Part]:
    began, process = time.monotonic(), _make(name, None)
    while (status := _status(process)) is None:
        pass
    return [Part(name, time.monotonic() - began, status)]


def _beside_each_other(names: Sequence[str]) -> list[Part]:
    print(f"\n{_listed(names)} run beside each other; the output of each follows its end", flush=True)
    began = said = time.monotonic()
    ran: list[Part] = []
    with ExitStack() as stack:
        outputs = {name: stack.enter_context(tempfile.TemporaryFile()) for name in names}
        running = {name: _make(name, output) for name, output in outputs.items()}
        while running:
            for name in [name for name, process in running.items() if process.poll() is not None]:
                status = _status(running.pop(name))
                ran.append(Part(name, time.monotonic() - began, 1 if status is None else status))
                outputs[name].seek(0)
                print(f"\n--- {name} ---\n{outputs[name].read().decode(errors='replace')}", flush=True)
            if running and time.monotonic() - said > SIGN_OF_LIFE:
                said = time.monotonic()
                print(f"after {said - began:.0f} s: {_listed(list(running))}", flush=True)
            _pause(LOOKS)
    return ran


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


def _make(target: str, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """A part that runs. It prints into a file, or to the terminal."""
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", target]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=output, stderr=None if output is None else subprocess.STDOUT
    )


def _status(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for its exit status, in a shell's form if a signal ended it; None if the wait was interrupted."""
    try:
        status = process.wait()
    except KeyboardInterrupt:
        # The part was interrupted as well, and ends when its tests have cleaned up.
        return None
    return status if status >= 0 else 128 - status


def _pause(seconds: float) -> None:
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        # As above.
        return


def table(ran: Sequence[Part], budget: Mapping[str, float], seconds: float) -> str:
    """One line for each part and one for all of them, in minutes.

    budget: minutes by part, and of all. seconds: of all, which is less than the sum where parts ran beside
    each other.
    """
    lines = [f"{'part':<16}{'minutes':>9}{'budget':>9}"]
    lines += [_line(part.name, part.seconds, budget.get(part.name), _remark(part)) for part in ran]
    lines.append(_line(TOGETHER, seconds, budget.get(TOGETHER), ""))
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


def main(steps: Sequence[str]) -> int:
    """The exit status of the first part that failed; 0 if none did."""
    budget = read_budget((ROOT / "pyproject.toml").read_text())
    began = time.monotonic()
    ran = run(steps)
    print(f"\n{table(ran, budget, time.monotonic() - began)}", flush=True)
    return next((part.status for part in ran if part.status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
