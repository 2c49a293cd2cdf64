"""What an engine says of its own speculation, read from its control API."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from outrider.api.schedule import Schedule


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
    reason: str | None = None


class ProbeResult(_Wire):
    """What one slice of a probe counted in its batch bin."""

    num_speculative_tokens: int
    steps: float = 0.0
    seconds: float = 0.0  # engine time
    scheduled_requests: float = 0.0
    emitted_tokens: float = 0.0


class ProbeState(_Wire):
    """The probe that runs, or the last one."""

    id: str
    running: bool
    reason: str  # Running, Completed, Deadline, Superseded, LeaseLapsed; newer engines may know more
    min_batch_size: int
    max_batch_size: int | None = None
    results: tuple[ProbeResult, ...] = ()


class SelfTest(_Wire):
    """What the engine found before its traffic, going from the smallest K to each other and back."""

    state: str  # Skipped, Running, Passed, Failed; newer engines may know more
    detail: str = ""
    failed_k: frozenset[int] = Field(default=frozenset(), alias="failedK")
    """K that the engine refuses from then on."""


class EngineState(_Wire):
    """The answer of ``GET /outrider/v1/state``. Unknown fields are ignored: engines may be newer."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, arbitrary_types_allowed=True)

    boot_id: str
    """Random for each start of the engine; a change means that pushed tables are gone."""
    captured_k: frozenset[int] = Field(alias="capturedK")
    live_tuning: LiveTuning
    schedule: Schedule | None
    """The table that the scheduler really uses; None where the engine has none."""
    source: ScheduleSource
    term: int
    epoch: int
    lease_remaining_seconds: float | None = None
    engines_agree: bool = True
    self_test: SelfTest | None = None
    """None where the plugin makes none."""
    probe: ProbeState | None = None
    """None before the first one, and where the plugin cannot probe."""

    @property
    def failed_k(self) -> frozenset[int]:
        """Captured, but failed by the self-test."""
        return self.self_test.failed_k if self.self_test is not None else frozenset()

    @field_validator("schedule", mode="before")
    @classmethod
    def _read_schedule(cls, rows: Any) -> Schedule | None:
        return None if rows is None else Schedule.from_wire(rows)

    def confirms(self, schedule: Schedule, *, term: int, epoch: int) -> bool:
        """True when exactly this push is in force in every engine process of the pod."""
        return (
            self.source is ScheduleSource.PUSHED
            and (self.term, self.epoch) == (term, epoch)
            and self.engines_agree
            and self.schedule is not None
            and self.schedule.merged() == schedule.merged()
        )
