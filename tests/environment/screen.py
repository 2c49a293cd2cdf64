"""One line per stage: redrawn in place on a terminal, printed once elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

LOG_TAIL_LINES = 15
HEARTBEAT_SECONDS = 60.0


class Lines:
    """Numbers the stages and writes their lines to `out`.

    Where `out` is not a terminal, a stage's line comes when it is finished; after a minute without any
    line, one line says what is still running, so that a silent log never looks like a hang.
    """

    def __init__(self, names: Sequence[str], out: TextIO, clock: Callable[[], float]) -> None:
        self._number = {name: number for number, name in enumerate(names, start=1)}
        self._width = max((len(name) for name in names), default=0)
        self._out = out
        self._live = out.isatty()
        self._drawn = 0
        self._clock = clock
        self._last_line = clock()

    def running(self, lines: Mapping[str, tuple[str, float]]) -> None:
        rows = [self._line(name, text or "…", seconds) for name, (text, seconds) in lines.items()]
        if self._live:
            self._erase()
            self._out.writelines(row[:119] + "\n" for row in rows)
            self._out.flush()
            self._drawn = len(rows)
        elif rows and self._clock() - self._last_line >= HEARTBEAT_SECONDS:
            self._print("still running: " + "; ".join(" ".join(row.split()) for row in rows))

    def finished(self, name: str, text: str, seconds: float) -> None:
        self._print(self._line(name, text or "done", seconds))

    def skipped(self, name: str) -> None:
        self._print(self._line(name, "skipped (present)", None))

    def failed(self, name: str, error: str, seconds: float, log: Path, remedy: str) -> None:
        self._print(self._line(name, f"FAILED: {error}", seconds))
        tail = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        for row in tail:
            self._print(f"    {row}")
        self._print(f"  log:   {log}")
        self._print(f"  to do: {remedy}")

    def _line(self, name: str, text: str, seconds: float | None) -> str:
        total = len(self._number)
        digits = len(str(total))
        row = f"[{self._number[name]:>{digits}}/{total}] {name:<{self._width}}  {text:<36}"
        return row.rstrip() if seconds is None else f"{row} {seconds:5.0f} s"

    def _print(self, row: str) -> None:
        self._erase()
        self._out.write(row + "\n")
        self._out.flush()
        self._last_line = self._clock()

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0
