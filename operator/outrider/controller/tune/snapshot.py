"""What of the tuner survives a restart: its state as text, and the schedule in the status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)

from outrider.api.conditions import ConditionType
from outrider.api.reasons import TuningReason
from outrider.api.tuning import TuningMode
from outrider.api.validation_message import first_validation_message
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.step_time_profiles import LaunchProfile
from outrider.foreign import InputRefused, read_as
from outrider.foreign.readers import TUNER_STATE
from outrider.tuning.bounded_types import Words
from outrider.tuning.decision import BinEstimates
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.stored import StateError, from_wire, to_wire
from outrider_protocol.schedule import Schedule

_MAX_BINS = 64
"""Maximum number of batch bins: twice what a batch of 2^31 needs."""
_MAX_CELLS = 512


@dataclass(frozen=True, slots=True)
class TunerSnapshot:
    """A tuner's state, the part of the spec that it depends on, and its estimates for `explain`."""

    mode: TuningMode
    static: Schedule
    state: TunerState
    estimates: Mapping[str, BinEstimates]
    failed_k: frozenset[int] = frozenset()  # in an engine's self-test; not among the state's candidates
    relaunches: RelaunchState = field(default_factory=RelaunchState)
    profile: LaunchProfile | None = None  # measured by engines of this launch before they served
    adaptive: bool = False  # the state is of the pods that are tuned apart, such as adaptive ones
    reset_request: str | None = None  # the last request to reset the tuner; the state is from after it


def _of_bins(estimates: object) -> object:
    """Count before the values are parsed, because errors of many values take much memory."""
    if isinstance(estimates, dict) and len(estimates) > _MAX_BINS:
        raise ValueError(f"more than {_MAX_BINS} batch bins")
    return estimates


class _Stored(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    mode: TuningMode
    static: list[dict[str, int]]
    estimates: Annotated[dict[Words, BinEstimates], BeforeValidator(_of_bins)] = {}
    failed_k: frozenset[int] = Field(frozenset(), alias="failedK")
    relaunches: RelaunchState | None = None
    adaptive: bool = False
    reset_request: str | None = Field(None, alias="forgot")
    profile: object = Field(None, alias="stepTimes")  # parsed apart, because the rest is usable without it
    state: object


_STORED = TypeAdapter(_Stored)


def write_snapshot(snapshot: TunerSnapshot) -> str:
    """The snapshot as JSON in one line."""
    return _Stored(
        mode=snapshot.mode,
        static=snapshot.static.to_wire(),
        estimates=dict(snapshot.estimates),
        failedK=snapshot.failed_k,
        relaunches=snapshot.relaunches,
        adaptive=snapshot.adaptive,
        forgot=snapshot.reset_request,
        stepTimes=write_profile(snapshot.profile),
        state=to_wire(snapshot.state),
    ).model_dump_json(by_alias=True)


def read_snapshot(text: str, model: TunedModel) -> TunerSnapshot | None:
    """The inverse of `write_snapshot` for a model; None if the user changed what the state depends on.

    Raises:
        StateError: corrupt, too large, or written by another version or for other candidates.
    """
    stored = _read(text)
    if (stored.mode, stored.static) != (model.mode, model.static.to_wire()):
        return None
    return TunerSnapshot(
        mode=model.mode,
        static=model.static,
        state=from_wire(stored.state, usable(model.policy, stored.failed_k)),
        estimates=stored.estimates,
        failed_k=stored.failed_k,
        relaunches=stored.relaunches or RelaunchState(),
        profile=read_profile(stored.profile),
        adaptive=stored.adaptive,
        reset_request=stored.reset_request,
    )


def read_estimates(text: str) -> Mapping[str, BinEstimates]:
    """The estimates only, by label of the batch bin.

    Raises:
        StateError: corrupt.
    """
    return _read(text).estimates


def usable(policy: Policy, failed_k: frozenset[int]) -> Policy:
    """The policy without the K that failed a self-test, unless none is left."""
    left = tuple(k for k in policy.candidates if k not in failed_k)
    return replace(policy, candidates=left) if left else policy


def _read(text: str) -> _Stored:
    try:
        return read_as(TUNER_STATE, text, _STORED)
    except InputRefused as error:
        raise StateError(str(error)) from error
    except ValidationError as error:
        raise StateError(first_validation_message(error, whole="text")) from error


def _digits(count: int) -> PlainSerializer:
    """Round to significant digits, because a profile may have hundreds of cells."""
    return PlainSerializer(lambda value: float(f"{value:.{count}g}"))


class _Cell(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    b: float
    k: Annotated[int, Field(ge=0)]
    c: float | None
    s: Annotated[float, _digits(4)]
    e: Annotated[float, _digits(2)]


class _Profile(BaseModel):
    """A profile in the stored form. Another version is not read; the next pod brings a profile."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    revision: Annotated[str, Field(max_length=128)]
    pod: Annotated[str, Field(max_length=256)]
    cells: Annotated[list[_Cell], Field(min_length=1, max_length=_MAX_CELLS)]


def write_profile(profile: LaunchProfile | None) -> dict[str, object] | None:
    """The stored form of a profile, with short names and few digits."""
    if profile is None:
        return None
    cells = [
        _Cell.model_construct(b=cell.batch_size, k=cell.k, c=cell.context, s=cell.step_seconds, e=cell.error)
        for cell in profile.step_times.cells
    ]
    return _Profile.model_construct(revision=profile.revision, pod=profile.pod, cells=cells).model_dump()


def read_profile(stored: object) -> LaunchProfile | None:
    """The inverse of `write_profile`; None if it cannot be parsed, because the next pod brings a profile."""
    try:
        found = _Profile.model_validate(stored)
        cells = tuple(MapCell(cell.b, cell.k, cell.c, cell.s, cell.e) for cell in found.cells)
    except (ValidationError, ValueError):
        return None
    return LaunchProfile(found.revision, found.pod, StepTimeProfile(cells))


def last_reported(model: TunedModel) -> Schedule | None:
    """The schedule that an earlier process reported for this spec, if it is still allowed; else None."""
    converged = model.status.condition(ConditionType.ACTUATION_CONVERGED)
    active = model.status.condition(ConditionType.TUNING_ACTIVE)
    if converged is None:
        return None
    if active is not None and active.reason == TuningReason.OVERRIDDEN:
        return None
    if converged.observed_generation != model.generation:
        return None
    table = reported_schedule(model)
    return table if table is not None and table.values() <= set(model.policy.candidates) else None


def reported_schedule(model: TunedModel) -> Schedule | None:
    """The schedule that the status reports, also one of an override; None without a readable one."""
    speculation = model.status.speculation
    if speculation is None or not speculation.schedule:
        return None
    try:
        return Schedule.from_wire([row.model_dump(by_alias=True) for row in speculation.schedule])
    except ValueError:
        return None
