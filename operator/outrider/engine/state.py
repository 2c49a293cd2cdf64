"""An engine's report on its own speculation, read from its control API.

Every value has a limit, because the operator stores, compares, logs and shows it. Validation of a list ends
at the first error; otherwise pydantic would keep an error for each entry.
"""

from __future__ import annotations

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

from outrider_protocol.control_api import Fence, Push
from outrider_protocol.engine_state import Source
from outrider_protocol.schedule import Schedule

_MAX_SENTENCE = 512
_MAX_ENTRIES = 64
_MAX_K = 1024
_MAX_BATCH = 2**31 - 1
_MAX_STEP_TIMES = 512
_MAX_STEP_SECONDS = 3600.0
_MAX_ERROR = 100.0
_MAX_NUMBER = 2**53 - 1
"""Maximum of a term and of an epoch in the contract."""


def _in_one_line(text: str) -> str:
    """Shorten a text and remove control characters of logs and terminals."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MAX_SENTENCE])


Sentence = Annotated[str, AfterValidator(_in_one_line)]
"""Text for people. A longer one is shortened, so that the rest of the answer remains valid."""
Word = Annotated[str, Field(max_length=128), AfterValidator(_in_one_line)]
"""A name that the operator compares."""
DraftLength = Annotated[int, Field(ge=0, le=_MAX_K)]
BatchSize = Annotated[int, Field(ge=1, le=_MAX_BATCH)]
FenceNumber = Annotated[int, Field(ge=0, le=_MAX_NUMBER)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class LiveTuning(_Wire):
    """Whether the schedule can change while the engine runs, and if not, why."""

    possible: bool
    reason: Sentence | None = None


class IdleDrafter(_Wire):
    """Whether decode steps with K=0 skip the drafter, and if not, why."""

    skipped: bool
    reason: Sentence | None = None


class ProbeResult(_Wire):
    """Counts of one part of a probe in its batch bin."""

    num_speculative_tokens: DraftLength
    steps: Amount = 0.0
    seconds: Amount = 0.0  # engine time
    scheduled_requests: Amount = 0.0
    emitted_tokens: Amount = 0.0


class ProbeState(_Wire):
    """The running probe, or the last one."""

    id: Word
    running: bool
    reason: Word  # Running, Completed, Deadline, Superseded, LeaseLapsed; newer engines may have more
    min_batch_size: BatchSize
    max_batch_size: BatchSize | None = None
    results: Annotated[tuple[ProbeResult, ...], Field(fail_fast=True, max_length=_MAX_ENTRIES)] = ()


class SelfTest(_Wire):
    """Result of the self-test before traffic: from the minimum K to each other K and back."""

    state: Word  # Skipped, Running, Passed, Failed; newer engines may have more
    detail: Sentence = ""
    failed_k: Annotated[
        frozenset[DraftLength], Field(fail_fast=True, max_length=_MAX_ENTRIES, alias="failedK")
    ] = frozenset()
    """Values of K that failed; the engine refuses them."""


class StepTime(_Wire):
    """One cell of the startup profile, which the engine measured before traffic."""

    batch_size: BatchSize
    num_speculative_tokens: DraftLength
    context_tokens: Annotated[float, Field(ge=1, le=_MAX_BATCH)]  # per request
    step_seconds: Annotated[float, Field(gt=0, le=_MAX_STEP_SECONDS)]
    error: Annotated[float, Field(gt=0, le=_MAX_ERROR)]  # relative, standard


_STEP_TIMES = TypeAdapter(Annotated[tuple[StepTime, ...], Field(fail_fast=True, max_length=_MAX_STEP_TIMES)])


def _read_step_times(cells: object) -> tuple[StepTime, ...]:
    """Return no cells if they cannot be parsed: the tuner works without them."""
    try:
        return _STEP_TIMES.validate_python(cells)
    except ValidationError:
        return ()


class FastLoop(_Wire):
    """Whether the engine chooses K at each step by a pushed cost model, and what came of it."""

    possible: bool
    """The engine takes cost models."""
    revision: Word | None = None
    """Names the launch; a cost model has to carry it."""
    active: bool = False
    """A cost model is in use."""
    inactive_reason: Word | None = None
    """Such as NoCostModel, Refused or Disagrees; newer engines may know more."""
    inactive_detail: Sentence | None = None
    num_speculative_tokens: DraftLength | None = None
    """K of the last step."""
    survival: Annotated[tuple[Probability, ...] | None, Field(fail_fast=True, max_length=_MAX_ENTRIES)] = None
    """By position: the probability that a draft is accepted up to there, averaged over engine time."""


_FAST_LOOP = TypeAdapter(FastLoop)


def _read_fast_loop(value: object) -> FastLoop | None:
    """None where it cannot be read: the schedule holds without it, so the answer counts."""
    try:
        return None if value is None else _FAST_LOOP.validate_python(value)
    except ValidationError:
        return None


def _read_schedule(rows: object) -> Schedule | None:
    if rows is None:
        return None
    schedule = Schedule.from_wire(rows)
    if (k := max(schedule.values())) > _MAX_K:
        raise ValueError(f"K={k} is above {_MAX_K}")
    return schedule


class EngineState(_Wire):
    """The answer of ``GET /outrider/v1/state``. It ignores unknown fields, because engines may be newer."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, arbitrary_types_allowed=True)

    boot_id: Word
    """Random for each start of the engine; a change means that pushed schedules are gone."""
    engine_version: Word | None = None
    plugin_version: Word | None = None
    method: Word | None = None
    """vLLM's name of the method; None without speculation."""
    runner: Word | None = None
    """vLLM's model runner, V1 or V2."""
    max_num_seqs: BatchSize | None = None
    """Maximum batch size of the launch configuration."""
    captured_k: Annotated[
        frozenset[DraftLength], Field(fail_fast=True, max_length=_MAX_ENTRIES, alias="capturedK")
    ]
    live_tuning: LiveTuning
    simulated: Sentence | None = None
    """The GPU of a simulated engine; None for a real engine, which may omit it."""
    cuda_graphs: Word | None = None
    """vLLM's CUDA graph mode, such as FULL_AND_PIECEWISE; None without graphs, and for older plugins."""
    idle_drafter: IdleDrafter | None = None
    """None without a drafter, and for older plugins."""
    schedule: Annotated[Schedule | None, BeforeValidator(_read_schedule)]
    """The schedule that vLLM's scheduler uses; None if the engine has none."""
    source: Source
    term: FenceNumber
    epoch: FenceNumber
    lease_remaining_seconds: Amount | None = None
    engines_agree: bool = True
    self_test: SelfTest | None = None
    """None if the plugin has no self-test."""
    step_times: Annotated[tuple[StepTime, ...], BeforeValidator(_read_step_times)] = ()
    """Empty if the engine measured none, and in answers to pushes and probes."""
    fast_loop: Annotated[FastLoop | None, BeforeValidator(_read_fast_loop)] = None
    """None where the plugin takes no cost model."""
    probe: ProbeState | None = None
    """None before the first probe, and if the plugin cannot probe."""

    @property
    def failed_k(self) -> frozenset[int]:
        """Captured values of K that failed the self-test."""
        return self.self_test.failed_k if self.self_test is not None else frozenset()

    def confirms(self, push: Push) -> bool:
        """Return True if exactly this push is in force in every engine process of the pod."""
        return (
            self.source is Source.PUSHED
            and Fence(self.term, self.epoch) == push.fence
            and self.engines_agree
            and self.schedule is not None
            and self.schedule.merged() == push.schedule.merged()
        )
