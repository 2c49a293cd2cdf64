"""Stages that only note that they ran, and a runner around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.environment.records import Records
from tests.environment.runner import Runner, Stage, Work


class Journal:
    """A screen that keeps all calls, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.failures: list[tuple[str, str, str]] = []

    def running(self, lines: Mapping[str, tuple[str, float]]) -> None:
        """Progress in between is not kept."""

    def finished(self, name: str, text: str, seconds: float) -> None:
        del text, seconds
        self.events.append(("finished", name))

    def skipped(self, name: str) -> None:
        self.events.append(("skipped", name))

    def failed(self, name: str, error: str, seconds: float, log: Path, remedy: str) -> None:
        del seconds
        self.events.append(("failed", name))
        self.failures.append((error, log.read_text(), remedy))


def no_work(work: Work) -> None:
    work.progress("nothing to do")


def stage(
    name: str,
    *,
    run: Callable[[Work], None] = no_work,
    key: str = "v1",
    present: bool = True,
    needs: tuple[str, ...] = (),
    lane: str | None = None,
) -> Stage:
    return Stage(
        name=name,
        run=run,
        key=lambda: key,
        present=lambda: present,
        remedy=f"mend {name}",
        needs=needs,
        lane=lane,
    )


def runner(folder: Path, screen: Journal, *, workers: int = 4) -> Runner:
    records = Records(stamps=folder / "stages.json", times=folder / "times.json")
    return Runner(records, screen, folder, {"PATH": "/usr/bin:/bin"}, clock=lambda: 0.0, workers=workers)
