"""The stored form of the tuner's state: versioned, checked, a few kilobytes of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import gt

from pydantic import ConfigDict, TypeAdapter, ValidationError

from outrider.api.drafting import MAX_K
from outrider.api.validation_message import first_validation_message
from outrider.foreign.readers import TUNER_STATE
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState

VERSION = 6
"""Version of the stored form. Increase it when a field changes its meaning, and read the version before."""

MAX_BYTES = TUNER_STATE.most_bytes

_MAX_EDGE = 2**31


class StateError(ValueError):
    """A stored state that cannot be continued: unknown version, other policy, or corrupt."""


@dataclass(frozen=True)
class _Stored:
    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    version: int
    state: TunerState


_STORED = TypeAdapter(_Stored)


def to_wire(state: TunerState) -> dict[str, object]:
    """Return the state as JSON types."""
    wire = _STORED.dump_python(_Stored(VERSION, state), mode="json", by_alias=True)
    assert isinstance(wire, dict)
    return wire


def from_wire(data: object, policy: Policy) -> TunerState:
    """Parse the output of `to_wire`, also of older versions.

    Raises:
        StateError: an unknown version, other candidates or bins, or a corrupt state.
    """
    try:
        state = _STORED.validate_python(_upgraded(data)).state
    except ValidationError as error:
        raise StateError(first_validation_message(error, whole="state")) from error
    if state.candidates != policy.candidates or state.edges != policy.bins:
        raise StateError("it is for other candidates or batch sizes")
    bins, known, probes = state.bins, state.learning.known, state.budget.probes
    in_bins = {*bins, *(cell.bin for cell in known), *(probe.bin for probe in probes)}
    if not in_bins <= set(range(len(policy.bins))):
        raise StateError("it has an unknown batch bin")
    named = {*(b.k for b in bins.values()), *(cell.k for cell in known), *(probe.k for probe in probes)}
    named |= set(state.schedule.values())
    named |= {b.replaced for b in bins.values() if b.replaced is not None}
    if not named <= set(policy.candidates):
        raise StateError("it has a K that is not a candidate")
    _require_sound(state)
    return state


def _require_sound(state: TunerState) -> None:
    """Refuse values that the tuner never writes."""
    if len({known.key for known in state.learning.known}) < len(state.learning.known):
        raise StateError("it has the same cell twice")
    for row in (*state.static.rows, *state.schedule.rows):
        edge = row.max_batch_size
        if row.num_speculative_tokens > MAX_K or (edge is not None and edge > _MAX_EDGE):
            raise StateError("it has a schedule with numbers beyond any engine")
    tried, accepted = state.learning.profile.tried, state.learning.profile.accepted
    if len(tried) != len(accepted) or any(map(gt, accepted, tried)):
        raise StateError("it has more accepted than drafted tokens")


def _upgraded(data: object) -> object:
    version = data.get("version") if isinstance(data, Mapping) else None
    if version == VERSION:
        return data
    if not isinstance(data, Mapping) or version != VERSION - 1:
        raise StateError(f"it has version {version}, not {VERSION}")
    state = data.get("state")
    if not isinstance(state, Mapping):
        raise StateError("state: missing")
    return {"version": VERSION, "state": _from_version_5(state)}


def _from_version_5(state: Mapping[str, object]) -> Mapping[str, object]:
    """Begin the cost of recent probes anew, because it was one sum for all K."""
    budget = state.get("budget")
    if not isinstance(budget, Mapping):
        return state
    return {**state, "budget": {name: value for name, value in budget.items() if name != "loss"}}
