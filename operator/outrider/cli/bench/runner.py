"""Runs GuideLLM on a live model, once per measurement, under an override of its schedule."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.api.schedule import Schedule
from outrider.api.status import DecisionRecord
from outrider.bench.guidellm import Load, Slice, UnreadableResult, arguments, read
from outrider.bench.prompts import lines
from outrider.cli.common.cluster import CannotRead, access, read_model
from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.override import Hold, held_model, holding
from outrider.cli.common.processes import running, url_of
from outrider.cluster.client import ClusterClient

_START_SECONDS = 180.0
"""Time that GuideLLM may take to start on a busy machine."""
_SPARE_SECONDS = 60.0
"""Time that an override lasts longer than GuideLLM may."""
_LAST_WORDS = 300  # characters

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Job:
    """The options of a bench or a sweep."""

    cluster: ClusterChoice
    name: str
    ks: tuple[int, ...]  # to measure; they must be candidates
    seconds: float  # of a measurement
    max_tokens: int
    prompts: Sequence[str]
    url: str | None  # None: a port is forwarded to one pod
    guidellm: str


class Bench:
    """A live model that can be measured."""

    def __init__(
        self,
        job: Job,
        program: tuple[str, ...],
        cluster: ClusterClient,
        hold: Hold,
        folder: Path,
        *,
        namespace: str,
        url: str,
        served_name: str,
        candidates: tuple[int, ...],
        simulated: str | None,
    ) -> None:
        self.namespace = namespace
        self.simulated = simulated
        self.candidates = candidates
        self._job = job
        self._program = program
        self._cluster = cluster
        self._hold = hold
        self._folder = folder
        self._url = url
        self._served_name = served_name
        self._slices = 0

    async def decisions(self, since: datetime) -> list[DecisionRecord]:
        """Decisions of the tuner since then, newest first; status keeps five.

        Raises:
            CannotRead: the model is gone, or the API server does not answer.
        """
        model, _ = await read_model(self._cluster, self.namespace, self._job.name)
        return [each for each in model.status.decisions if each.time >= since]

    async def slice(self, table: Schedule | None, *, streams: int) -> Slice:
        """Measure once with this schedule; None: with the schedule in force.

        Raises:
            CannotRead: the schedule does not reach every pod, GuideLLM fails, or no token comes.
        """
        await self._hold.set(table, seconds=self._longest + _SPARE_SECONDS)
        found = await self._run(streams)
        if not await self._hold.holds(table):
            raise CannotRead("the schedule changed during a measurement. Begin again.")
        return found

    @property
    def _longest(self) -> float:
        return _START_SECONDS + 2 * self._job.seconds

    async def _run(self, streams: int) -> Slice:
        output, prompts = self._folder / "slice.json", self._folder / "prompts.jsonl"
        output.unlink(missing_ok=True)
        prompts.write_text("\n".join(lines(self._job.prompts, of_slice=self._slices)), encoding="utf-8")
        self._slices += 1
        load = Load(self._url, self._served_name, streams, self._job.seconds, self._job.max_tokens)
        words = arguments(load, prompts=str(prompts), output=str(output))
        async with running((*self._program, *words)) as process:
            try:
                _, complaint = await asyncio.wait_for(process.communicate(), self._longest)
            except TimeoutError as error:
                raise CannotRead(f"GuideLLM did not end within {self._longest:.0f} s") from error
        if process.returncode != 0 or not output.exists():
            ended = f"ended with {process.returncode}" if process.returncode else "wrote no result"
            last = complaint.decode(errors="replace").strip()[-_LAST_WORDS:]
            raise CannotRead(f"GuideLLM {ended}; 0.8 is known to work. Its last output: {last or 'none'}")
        return self._read(output)

    def _read(self, output: Path) -> Slice:
        try:
            found = read(output.read_text(encoding="utf-8"))
        except UnreadableResult as error:
            raise CannotRead(f"GuideLLM's result cannot be read, 0.8 is known to work: {error}") from error
        if not found.tokens_per_second:
            raise CannotRead(
                f"no token came from {self._url}, {found.failed} requests failed. "
                "Check that it serves /v1/completions."
            )
        return found


@asynccontextmanager
async def benching(job: Job, tell: Tell) -> AsyncIterator[Bench]:
    """A model that can be measured; after the block its override is removed.

    Raises:
        CannotRead: bad input, or a fault in the cluster; the message says what to do.
    """
    program = _program_of(job.guidellm)
    async with access(job.cluster) as there:
        model, candidates = await held_model(there, job.name, job.ks)
        speculation = model.status.speculation
        with TemporaryDirectory(prefix="outrider-bench-") as folder:
            async with (
                url_of(there.choice, job.name, job.url) as url,
                holding(there.cluster, there.namespace, job.name, tell) as hold,
            ):
                yield Bench(
                    job,
                    program,
                    there.cluster,
                    hold,
                    Path(folder),
                    namespace=there.namespace,
                    url=url,
                    served_name=model.spec.model.served_name or job.name,
                    candidates=candidates,
                    simulated=None if speculation is None else speculation.simulated,
                )


def _program_of(command: str) -> tuple[str, ...]:
    words = tuple(shlex.split(command))
    if not words or shutil.which(words[0]) is None:
        raise CannotRead(
            "GuideLLM is not installed. Run `uv tool install guidellm==0.8.*`, or name its command, such as "
            "--guidellm 'uvx guidellm@0.8.1'."
        )
    return words
