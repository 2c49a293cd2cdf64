"""Runs stages in the order of their needs, skips what is already there, and says what it does.

A stage is data: what it needs, a key that changes when its outcome would, a check that the outcome is
still there, the work itself, and what to do when it fails. Independent stages overlap; stages in the
same lane do not, so that two of them never compete for all cores.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.environment.records import Records


class StageError(Exception):
    """A stage cannot continue. The message is one sentence for the person at the terminal."""


@dataclass(frozen=True)
class Stage:
    """One step of the set-up.

    key: text that differs whenever the outcome would differ (versions, content hashes).
    present: whether the outcome of an earlier run with the same key is still there.
    needs: names of stages that come first.
    lane: at most one stage of a lane runs at a time; None means no such limit.
    remedy: what a person does when it fails.
    """

    name: str
    run: Callable[[Work], None]
    key: Callable[[], str]
    present: Callable[[], bool]
    remedy: str
    needs: tuple[str, ...] = ()
    lane: str | None = None


class Screen(Protocol):
    """Where the lines go. Times are seconds since the stage began."""

    def running(self, lines: Mapping[str, tuple[str, float]]) -> None:
        """Called about twice a second with (progress, seconds) of each running stage."""

    def finished(self, name: str, text: str, seconds: float) -> None: ...

    def skipped(self, name: str) -> None: ...

    def failed(self, name: str, error: str, seconds: float, log: Path, remedy: str) -> None: ...


class Processes:
    """The commands under way, so that a failure elsewhere ends them instead of waiting for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def start(self, command: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise StageError("stopped because another stage failed")
            process = subprocess.Popen(command, start_new_session=True, **options)  # type: ignore[call-overload]
            self._live.add(process)
        return process  # type: ignore[no-any-return]

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._live.discard(process)

    def stop(self) -> None:
        with self._lock:
            self._closed = True
            live = list(self._live)
        for process in live:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue


@dataclass
class Work:
    """What a running stage may use: a log, a progress text, and commands that write to that log."""

    log: Path
    processes: Processes
    environment: Mapping[str, str]
    text: str = ""

    def progress(self, text: str) -> None:
        """Shows `text` in the stage's line until the next call."""
        self.text = text
        self.note(text)

    def note(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(f"# {text}\n")

    def run(
        self, *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Runs a command, its output in the log. Raises StageError when it does not exit with 0."""
        self._execute(command, cwd, env, stdin=None)

    def feed(self, text: str, *command: str | Path) -> None:
        """Like run, with `text` on the command's standard input."""
        self._execute(command, None, None, stdin=text)

    def _execute(
        self,
        command: Sequence[str | Path],
        cwd: Path | None,
        env: Mapping[str, str] | None,
        stdin: str | None,
    ) -> None:
        words = [str(word) for word in command]
        self.note("$ " + " ".join(words))
        with self.log.open("ab") as log:
            process = self.processes.start(
                words,
                cwd=cwd,
                env={**self.environment, **(env or {})},
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                process.communicate(None if stdin is None else stdin.encode())
            finally:
                self.processes.forget(process)
        if process.returncode != 0:
            raise StageError(f"`{' '.join(words[:4])}` exited with {process.returncode}")


def upto(stages: Sequence[Stage], last: str | None) -> list[Stage]:
    """The stage named `last` with everything that it needs, in the given order; all when None."""
    if last is None:
        return list(stages)
    by_name = {stage.name: stage for stage in stages}
    if last not in by_name:
        raise StageError(f"there is no stage {last!r}; the stages are: {', '.join(by_name)}")
    wanted: set[str] = set()
    pending = [last]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending.extend(by_name[name].needs)
    return [stage for stage in stages if stage.name in wanted]


@dataclass
class Runner:
    """Runs stages once. `clock` gives monotonic seconds."""

    records: Records
    screen: Screen
    logs: Path
    environment: Mapping[str, str]
    clock: Callable[[], float]
    workers: int = 4

    def run(self, stages: Sequence[Stage]) -> bool:
        """True when every stage is done or present. The first failure stops the rest."""
        processes = Processes()
        waiting = list(stages)
        finished: set[str] = set()
        under_way: dict[Future[bool], tuple[Stage, Work, float]] = {}
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while waiting or under_way:
                    for stage in self._startable(waiting, finished, [s for s, _, _ in under_way.values()]):
                        waiting.remove(stage)
                        work = Work(self._log(stage), processes, self.environment)
                        future = pool.submit(self._settle, stage, work)
                        under_way[future] = (stage, work, self.clock())
                    if not under_way:
                        names = ", ".join(stage.name for stage in waiting)
                        raise StageError(f"these stages need something that is not among them: {names}")
                    done, _ = wait(under_way, timeout=0.5, return_when=FIRST_COMPLETED)
                    for future in done:
                        stage, work, began = under_way.pop(future)
                        if not self._report(future, stage, work, self.clock() - began):
                            return False
                        finished.add(stage.name)
                    self.screen.running(
                        {s.name: (w.text, self.clock() - t) for s, w, t in under_way.values()}
                    )
            finally:
                processes.stop()
        return True

    def _startable(
        self, waiting: Sequence[Stage], finished: set[str], running: Sequence[Stage]
    ) -> list[Stage]:
        busy = {stage.lane for stage in running if stage.lane}
        room = self.workers - len(running)
        startable: list[Stage] = []
        for stage in waiting:
            if len(startable) < room and finished.issuperset(stage.needs) and stage.lane not in busy:
                startable.append(stage)
                busy |= {stage.lane} if stage.lane else set()
        return startable

    def _log(self, stage: Stage) -> Path:
        log = self.logs / f"{stage.name.replace(' ', '-')}.log"
        log.touch()
        return log

    def _settle(self, stage: Stage, work: Work) -> bool:
        """Runs the stage unless it is present. True when it ran."""
        key = stage.key()
        if self.records.matches(stage.name, key) and stage.present():
            return False
        self.records.begin(stage.name)
        work.log.write_text("")
        began = self.clock()
        stage.run(work)
        # The run may have created what the key is made of, such as a cluster.
        self.records.done(stage.name, stage.key(), self.clock() - began)
        return True

    def _report(self, future: Future[bool], stage: Stage, work: Work, seconds: float) -> bool:
        try:
            ran = future.result()
        except (StageError, OSError) as error:
            self.screen.failed(stage.name, str(error), seconds, work.log, stage.remedy)
            return False
        if ran:
            self.screen.finished(stage.name, work.text, seconds)
        else:
            self.records.skipped(stage.name)
            self.screen.skipped(stage.name)
        return True
