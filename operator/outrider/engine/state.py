"""What an engine says of its own speculation, read from its control API.

Everything has a bound: whatever an engine says is kept, compared, logged and shown in status. Lists end at
their first error, since pydantic would keep one for each entry.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from outrider.api.schedule import Row, Schedule

_LONGEST_SENTENCE = 512
_MOST_ROWS = 64
_MOST_K = 64
_LARGEST_K = 1024
_LARGEST_BATCH = 2**31 - 1
_MOST_STEP_TIMES = 512
_LONGEST_STEP_SECONDS = 3600.0
_LARGEST_ERROR = 100.0
_LARGEST_NUMBER = 2**53 - 1
"""That of the contract for a term and an epoch."""


def _in_one_line(text: str) -> str:
    """Cut, and without what a log or a terminal would take for its own."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST_SENTENCE])


Sentence = Annotated[str, AfterValidator(_in_one_line)]
"""Text for people. A longer one is cut: it is no reason to refuse the rest of the answer."""
Word = Annotated[str, Field(max_length=128), AfterValidator(_in_one_line)]
"""A name that is compared."""
DraftLength = Annotated[int, Field(ge=0, le=_LARGEST_K)]
BatchSize = Annotated[int, Field(ge=1, le=_LARGEST_BATCH)]
FenceNumber = Annotated[int, Field(ge=0, le=_LARGEST_NUMBER)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ScheduleSource(StrEnum):
    """Where the table in force comes from."""

    STATIC = "Static"
    """The table of the spec; nothing was pushed yet."""
    PUSHED = "Pushed"
    """A pushed table under a live lease."""
    FALLBACK = "Fallback"
    """A lease ran out; the static table is back."""


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class LiveTuning(_Wire):
    """Whether the engine's table can be changed while it runs, and if not, why."""

    possible: bool
    reason: Sentence | None = None


class ProbeResult(_Wire):
    """What one slice of a probe counted in its batch bin."""

    num_speculative_tokens: DraftLength
    steps: Amount = 0.0
    seconds: Amount = 0.0  # engine time
    scheduled_requests: Amount = 0.0
    emitted_tokens: Amount = 0.0


class ProbeState(_Wire):
    """The probe that runs, or the last one."""

    id: Word
    running: bool
    reason: Word  # Running, Completed, Deadline, Superseded, LeaseLapsed; newer engines may know more
    min_batch_size: BatchSize
    max_batch_size: BatchSize | None = None
    results: Annotated[tuple[ProbeResult, ...], Field(fail_fast=True, max_length=_MOST_K)] = ()


class SelfTest(_Wire):
    """What the engine found before its traffic, going from the smallest K to each other and back."""

    state: Word  # Skipped, Running, Passed, Failed; newer engines may know more
    detail: Sentence = ""
    failed_k: Annotated[
        frozenset[DraftLength], Field(fail_fast=True, max_length=_MOST_K, alias="failedK")
    ] = frozenset()
    """K that the engine refuses from then on."""


class StepTime(_Wire):
    """One cell of the map that the engine measured before its traffic."""

    batch_size: BatchSize
    num_speculative_tokens: DraftLength
    context_tokens: Annotated[float, Field(ge=1, le=_LARGEST_BATCH)]  # per request
    step_seconds: Annotated[float, Field(gt=0, le=_LONGEST_STEP_SECONDS)]
    error: Annotated[float, Field(gt=0, le=_LARGEST_ERROR)]  # relative, standard


_STEP_TIMES = TypeAdapter(Annotated[tuple[StepTime, ...], Field(fail_fast=True, max_length=_MOST_STEP_TIMES)])


def _read_step_times(cells: object) -> tuple[StepTime, ...]:
    """Empty where they cannot be read: tuning goes without, so it is no reason to refuse the answer."""
    try:
        return _STEP_TIMES.validate_python(cells)
    except ValidationError:
        return ()


class _Row(_Wire):
    max_batch_size: BatchSize | None = None
    num_speculative_tokens: DraftLength


_ROWS = TypeAdapter(Annotated[tuple[_Row, ...], Field(fail_fast=True, max_length=_MOST_ROWS)])


def _read_schedule(rows: object) -> Schedule | None:
    if rows is None:
        return None
    found = _ROWS.validate_python(rows)
    return Schedule(tuple(Row(row.max_batch_size, row.num_speculative_tokens) for row in found))


class EngineState(_Wire):
    """The answer of ``GET /outrider/v1/state``. Unknown fields are ignored: engines may be newer."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, arbitrary_types_allowed=True)

    boot_id: Word
    """Random for each start of the engine; a change means that pushed tables are gone."""
    max_num_seqs: BatchSize | None = None
    """The largest batch of the launch."""
    captured_k: Annotated[
        frozenset[DraftLength], Field(fail_fast=True, max_length=_MOST_K, alias="capturedK")
    ]
    live_tuning: LiveTuning
    simulated: Sentence | None = None
    """What an engine stands in for that computes nothing; None for a real one, which may not say it."""
    cuda_graphs: Word | None = None
    """vLLM's mode of CUDA graphs, such as FULL_AND_PIECEWISE; None without any, and from older plugins."""
    schedule: Annotated[Schedule | None, BeforeValidator(_read_schedule)]
    """The table that the scheduler really uses; None where the engine has none."""
    source: ScheduleSource
    term: FenceNumber
    epoch: FenceNumber
    lease_remaining_seconds: Amount | None = None
    engines_agree: bool = True
    self_test: SelfTest | None = None
    """None where the plugin makes none."""
    step_times: Annotated[tuple[StepTime, ...], BeforeValidator(_read_step_times)] = ()
    """Empty where the engine measured none, and in the answers to what changes it."""
    probe: ProbeState | None = None
    """None before the first one, and where the plugin cannot probe."""

    @property
    def failed_k(self) -> frozenset[int]:
        """Captured, but failed by the self-test."""
        return self.self_test.failed_k if self.self_test is not None else frozenset()

    def confirms(self, schedule: Schedule, *, term: int, epoch: int) -> bool:
        """True when exactly this push is in force in every engine process of the pod."""
        return (
            self.source is ScheduleSource.PUSHED
            and (self.term, self.epoch) == (term, epoch)
            and self.engines_agree
            and self.schedule is not None
            and self.schedule.merged() == schedule.merged()
        )
