"""Run GuideLLM on a live model, once per measurement, under an override of its schedule."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.api.resource import SpeculativeModel
from outrider.api.status import DecisionRecord
from outrider.bench.guidellm import Load, Slice, UnreadableResult, arguments, read
from outrider.bench.prompts import lines
from outrider.bench.texts import PromptSet, Shape
from outrider.cli.bench.options import Job
from outrider.cli.common.cluster import Access, access, read_model
from outrider.cli.common.output import CommandError
from outrider.cli.common.override import Override, overridable_model, overriding
from outrider.cli.common.processes import running, url_of
from outrider_protocol.schedule import Schedule

_START_SECONDS = 180.0
"""Time that GuideLLM may take to start on a busy machine."""
_SPARE_SECONDS = 60.0
"""Time that an override lasts longer than GuideLLM may."""
_LAST_OUTPUT = 300  # characters

Notify = Callable[[str], None]


@dataclass
class Bench:
    """A live model that can be measured."""

    job: Job
    program: tuple[str, ...]  # GuideLLM
    there: Access
    model: SpeculativeModel
    texts: PromptSet | Shape | Sequence[str]
    candidates: tuple[int, ...]
    override: Override
    url: str
    folder: Path
    slices: int = 0

    @property
    def simulated(self) -> str | None:
        """The hardware that engines simulate, if they do."""
        speculation = self.model.status.speculation
        return None if speculation is None else speculation.simulated

    async def decisions(self, since: datetime) -> list[DecisionRecord]:
        """Decisions of the tuner since then, newest first; status keeps five."""
        model, _ = await read_model(self.there.cluster, self.there.namespace, self.job.name)
        return [each for each in model.status.decisions if each.time >= since]

    async def slice(self, table: Schedule | None, *, streams: int, rate: float | None = None) -> Slice:
        """Measure once with this schedule; None: with the schedule in force. rate: in place of streams."""
        limit = _START_SECONDS + 2 * self.job.seconds
        await self.override.set(table, seconds=limit + _SPARE_SECONDS)
        found = await self._run(streams, rate, limit)
        if rate is not None and found.answer_tokens_per_second is None:
            raise CommandError(
                "no answer finished in a measurement. Set longer --seconds or shorter --max-tokens."
            )
        if not await self.override.holds(table):
            raise CommandError("the schedule changed during a measurement. Begin again.")
        return found

    async def _run(self, streams: int, rate: float | None, limit: float) -> Slice:
        output = self.folder / "slice.json"
        output.unlink(missing_ok=True)
        load = Load(
            self.url,
            self.model.spec.model.served_name or self.job.name,
            streams,
            self.job.seconds,
            self.job.max_tokens,
            rate,
            self.job.requests.temperature,
        )
        words = arguments(load, texts=self._texts(), output=str(output))
        async with running((*self.program, *words)) as process:
            try:
                _, written = await asyncio.wait_for(process.communicate(), limit)
            except TimeoutError as error:
                raise CommandError(f"GuideLLM did not end within {limit:.0f} s") from error
        if process.returncode != 0 or not output.exists():
            ended = f"ended with {process.returncode}" if process.returncode else "wrote no result"
            last = written.decode(errors="replace").strip()[-_LAST_OUTPUT:]
            raise CommandError(f"GuideLLM {ended}; 0.8 is known to work. Its last output: {last or 'none'}")
        return self._read(output)

    def _texts(self) -> PromptSet | Shape | str:
        """What GuideLLM sends; prompts of a user get a file with other numbers for each measurement."""
        if isinstance(self.texts, PromptSet | Shape):
            return self.texts
        path = self.folder / "prompts.jsonl"
        path.write_text("\n".join(lines(self.texts, of_slice=self.slices)), encoding="utf-8")
        self.slices += 1
        return str(path)

    def _read(self, output: Path) -> Slice:
        try:
            found = read(output.read_text(encoding="utf-8"))
        except UnreadableResult as error:
            raise CommandError(f"GuideLLM's result cannot be read, 0.8 is known to work: {error}") from error
        if not found.tokens_per_second:
            raise CommandError(
                f"no token came from {self.url}, {found.failed} requests failed. "
                "Check that it serves /v1/completions."
            )
        return found


@asynccontextmanager
async def benching(job: Job, notify: Notify) -> AsyncIterator[Bench]:
    """A model that can be measured; after the block its override is removed."""
    program = _program_of(job.requests.guidellm)
    async with access(job.cluster) as there:
        model, candidates = await overridable_model(there, job.name, job.ks)
        texts = _counted(job, model)
        with TemporaryDirectory(prefix="outrider-bench-") as folder:
            async with (
                url_of(there.choice, job.name, job.requests.url) as url,
                overriding(there, job.name, notify) as override,
            ):
                yield Bench(job, program, there, model, texts, candidates, override, url, Path(folder))


def _counted(job: Job, model: SpeculativeModel) -> PromptSet | Shape | Sequence[str]:
    """The texts of a job; a shape has the model's tokenizer, which counts synthetic prompts."""
    if not isinstance(job.texts, Shape):
        return job.texts
    uri = model.spec.model.uri
    if not uri.startswith("hf://"):
        raise CommandError(
            f"--shape counts tokens with the tokenizer of an hf:// model, and {job.name} has {uri}. "
            "Use --prompts"
        )
    return replace(job.texts, tokenizer=uri.removeprefix("hf://"))


def _program_of(command: str) -> tuple[str, ...]:
    words = tuple(shlex.split(command))
    if not words or shutil.which(words[0]) is None:
        raise CommandError(
            "GuideLLM is not installed. Run `uv tool install guidellm==0.8.*`, or name its command, such as "
            "--guidellm 'uvx guidellm@0.8.1'."
        )
    return words
