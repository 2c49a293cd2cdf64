"""The tuner state as the text that survives a restart. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from outrider.api.schedule import Schedule
from outrider.api.speculation import TuningMode
from outrider.api.validation_message import first_validation_message
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.step_time_profiles import KnownMap, read_map, write_map
from outrider.foreign import InputRefused, read_as
from outrider.foreign.readers import TUNER_STATE
from outrider.tuning.bounded_types import Words
from outrider.tuning.decision import BinEstimates
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.stored import StateError, from_wire, to_wire


@dataclass(frozen=True, slots=True)
class TunerSnapshot:
    """A tuner's state, the part of the spec that it depends on, and its estimates for `explain`."""

    mode: TuningMode
    static: Schedule
    state: TunerState
    estimates: Mapping[str, BinEstimates]
    failed_k: frozenset[int] = frozenset()  # in an engine's self-test; not among the state's candidates
    relaunches: RelaunchState = field(default_factory=RelaunchState)
    forgot: str | None = None  # the last request to reset the tuner; the state is from after it
    step_times: KnownMap | None = None  # measured by engines of this launch before they served
    era: int = 0  # number of resets in this process; not stored


class _Stored(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    mode: TuningMode
    static: list[dict[str, int]]
    estimates: dict[str, JsonValue] = {}
    failed_k: frozenset[int] = frozenset()
    relaunches: JsonValue = None
    forgot: str | None = None
    step_times: JsonValue = None
    state: JsonValue


_MAX_BINS = 64
"""Maximum number of batch bins: twice what a batch of 2^31 needs."""

_STORED = TypeAdapter(_Stored)
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_ESTIMATES = TypeAdapter(Annotated[dict[Words, BinEstimates], Field(max_length=_MAX_BINS)])
_RELAUNCHES = TypeAdapter(RelaunchState)


def write_knowledge(knowledge: TunerSnapshot) -> str:
    """The state as JSON in one line."""
    return _Stored(
        mode=knowledge.mode,
        static=knowledge.static.to_wire(),
        estimates=_ESTIMATES.dump_python(dict(knowledge.estimates), mode="json"),
        failed_k=knowledge.failed_k,
        relaunches=_RELAUNCHES.dump_python(knowledge.relaunches, mode="json", by_alias=True),
        forgot=knowledge.forgot,
        step_times=write_map(knowledge.step_times),
        state=_JSON.validate_python(to_wire(knowledge.state)),
    ).model_dump_json(by_alias=True)


def usable(policy: Policy, failed_k: frozenset[int]) -> Policy:
    """The policy without the K that failed a self-test, unless none is left."""
    left = tuple(k for k in policy.candidates if k not in failed_k)
    return replace(policy, candidates=left) if left else policy


def read_knowledge(text: str, model: TunedModel) -> TunerSnapshot | None:
    """The inverse of `write_knowledge` for a model; None if the user changed what the state depends on.

    Raises:
        StateError: corrupt, too large, or written by another version or for other candidates.
    """
    stored = _read(text)
    if (stored.mode, stored.static) != (model.mode, model.static.to_wire()):
        return None
    state = from_wire(stored.state, usable(model.policy, stored.failed_k))
    return TunerSnapshot(
        model.mode,
        model.static,
        state,
        _estimates(stored),
        stored.failed_k,
        _relaunches(stored),
        stored.forgot,
        read_map(stored.step_times),
    )


def read_estimates(text: str) -> Mapping[str, BinEstimates]:
    """The estimates only, by label of the batch bin.

    Raises:
        StateError: corrupt.
    """
    return _estimates(_read(text))


def _estimates(stored: _Stored) -> Mapping[str, BinEstimates]:
    try:
        return _ESTIMATES.validate_python(stored.estimates)
    except ValidationError as error:
        raise _unreadable(error) from error


def _relaunches(stored: _Stored) -> RelaunchState:
    if stored.relaunches is None:
        return RelaunchState()
    try:
        return _RELAUNCHES.validate_python(stored.relaunches)
    except ValidationError as error:
        raise _unreadable(error) from error


def _read(text: str) -> _Stored:
    try:
        return read_as(TUNER_STATE, text, _STORED)
    except InputRefused as error:
        raise StateError(str(error)) from error
    except ValidationError as error:
        raise _unreadable(error) from error


def _unreadable(error: ValidationError) -> StateError:
    return StateError(first_validation_message(error, whole="text"))
