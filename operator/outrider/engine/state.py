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
