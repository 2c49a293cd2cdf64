"""All that the law remembers between ticks, and its stored form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pydantic import ConfigDict, TypeAdapter, ValidationError

from outrider.api.schedule import Schedule, Tier
from outrider.tuning.estimate import Drift, Measured, Score
from outrider.tuning.policy import Policy

VERSION = 1
"""Of the stored form. Raise it when a field changes its meaning."""


class StateError(ValueError):
    """A stored state that cannot be continued: other version, other policy, or corrupt."""


class Purpose(StrEnum):
    """Why a K is on trial."""

    CALIBRATION = "Calibration"
    PROBE = "Probe"


@dataclass(frozen=True, slots=True)
class Trial:
    """One K in one bin, in force for a short while."""

    bin: int
    k: int
    purpose: Purpose
    began_at: float  # unix seconds of the first trial in a row
    started_at: float
    heard_at: float  # unix seconds of its newest measurement, or of its start
    seconds: float = 0.0  # engine time measured
    steps: float = 0.0

    @classmethod
    def begin(cls, index: int, k: int, purpose: Purpose, now: float) -> Trial:
        """Nothing measured yet."""
        return cls(index, k, purpose, began_at=now, started_at=now, heard_at=now)

    def done(self, policy: Policy) -> bool:
        """Whether it was measured long enough."""
        return self.seconds >= policy.trial_seconds and self.steps >= policy.trial_steps


@dataclass(frozen=True, slots=True)
class BinState:
    """One batch bin that was visited."""

    k: int  # in force outside of trials
    decided: bool = False  # k was chosen by measurement; otherwise it is the static table's
    settled_at: float | None = None  # unix seconds of the last choice; None while it is calibrated
    calibrated_seconds: float = 0.0  # wall time spent on trials in this calibration
    replaced: int | None = None  # the K before the last change, to roll back to
    rival: int | None = None  # beats k beyond noise
    rival_ticks: int = 0
    probe_at: float = 0.0  # unix seconds; no probe before
    lost_probes: int = 0
    goodput_drift: Drift = field(default_factory=Drift)
    acceptance_drift: Drift = field(default_factory=Drift)
    measured: Mapping[int, Measured] = field(default_factory=dict)  # by K

    def scores(self, batch_size: float, now: float, policy: Policy) -> dict[int, Score]:
        """Every measured K at one batch size."""
        known = {k: self.measured[k].aged(now, policy) for k in policy.candidates if k in self.measured}
        return {k: _score(k, m, batch_size, policy) for k, m in known.items() if m.seconds > 0}

    def changed_to(self, k: int, now: float) -> BinState:
        """Another K is chosen; what was measured stays."""
        return BinState(
            k=k,
            decided=True,
            settled_at=now,
            replaced=self.k,
            probe_at=self.probe_at,
            calibrated_seconds=self.calibrated_seconds,
            measured=self.measured,
        )

    def forgotten(self) -> BinState:
        """Only the K in force is kept: what was measured no longer holds."""
        return BinState(k=self.k, decided=self.decided)


@dataclass(frozen=True, slots=True)
class TunerState:
    """Immutable; every decision carries the next one."""

    static: Schedule  # what the user gave; holds for batch bins without measurements
    schedule: Schedule  # wanted now
    candidates: tuple[int, ...]  # of the policy that it was made under
    edges: tuple[int, ...]  # of that policy's batch bins
    bins: Mapping[int, BinState] = field(default_factory=dict)  # visited ones, by index
    trial: Trial | None = None
    first_accepted: float = 0.0  # drafts whose first token was accepted, over the whole history
    first_drafted: float = 0.0
    collapsed: bool = False  # first-position acceptance is far below that history

    @classmethod
    def start(cls, static: Schedule, policy: Policy) -> TunerState:
        """Nothing measured yet; the static table is in force, with only allowed K."""
        return cls(static, compose(static, {}, None, policy), policy.candidates, policy.bins)

    def with_bin(self, index: int, bin_state: BinState) -> TunerState:
        """One bin replaced."""
        return replace(self, bins={**self.bins, index: bin_state})

    def without_trial(self, now: float) -> TunerState:
        """The trial is over; the time of a calibration counts against its bin."""
        trial = self.trial
        if trial is None:
            return self
        bin_state = self.bins[trial.bin]
        if trial.purpose is Purpose.CALIBRATION:
            spent = bin_state.calibrated_seconds + max(0.0, now - trial.started_at)
            bin_state = replace(bin_state, calibrated_seconds=spent)
        return replace(self.with_bin(trial.bin, bin_state), trial=None)

    def composed(self, policy: Policy) -> TunerState:
        """The wanted table follows bins and trial."""
        chosen = {index: bin_state.k for index, bin_state in self.bins.items() if bin_state.decided}
        return replace(self, schedule=compose(self.static, chosen, self.trial, policy))

    def to_wire(self) -> dict[str, object]:
        """JSON-able, a few kilobytes."""
        wire = _STORED.dump_python(_Stored(VERSION, self), mode="json")
        assert isinstance(wire, dict)
        return wire

    @classmethod
    def from_wire(cls, data: object, policy: Policy) -> TunerState:
        """The inverse of `to_wire`.

        Raises:
            StateError: written by another version, for other candidates or bins, or corrupt.
        """
        try:
            stored = _STORED.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            raise StateError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        if stored.version != VERSION:
            raise StateError(f"version {stored.version}, not {VERSION}")
        state = stored.state
        if state.candidates != policy.candidates or state.edges != policy.bins:
            raise StateError("stored for other candidates or batch sizes")
        trial = () if state.trial is None else (state.trial,)
        if not set(state.bins) <= set(range(len(policy.bins))) or not {t.bin for t in trial} <= set(
            state.bins
        ):
            raise StateError("an unknown batch bin")
        in_force = {*(b.k for b in state.bins.values()), *(t.k for t in trial), *state.schedule.values()}
        if not in_force <= set(policy.candidates):
            raise StateError("a K that is no candidate")
        return state


def compose(static: Schedule, chosen: Mapping[int, int], trial: Trial | None, policy: Policy) -> Schedule:
    """The table for chosen K per bin, and a trial on top.

    A bin without a choice keeps the static table, but never more than was chosen for the
    nearest smaller bin: a larger batch leaves less room for drafts.
    """

    def k_at(batch_size: int) -> int:
        index = policy.bin_of(batch_size)
        if trial is not None and trial.bin == index:
            return trial.k
        if index in chosen:
            return chosen[index]
        given = policy.allowed(static.k_at(batch_size))
        smaller = [i for i in chosen if i < index]
        return min(given, chosen[max(smaller)]) if smaller else given

    edges = {tier.max_batch_size for tier in static.tiers if tier.max_batch_size is not None}
    uppers = sorted(edges.union(policy.bins[:-1]))
    beyond = max([*uppers, policy.max_num_seqs]) + 1
    return Schedule((*(Tier(upper, k_at(upper)) for upper in uppers), Tier(None, k_at(beyond)))).merged()


def _score(k: int, measured: Measured, batch_size: float, policy: Policy) -> Score:
    mean = measured.goodput_at(batch_size)
    return Score(k, mean, mean * measured.relative_error(policy), measured.seconds)


@dataclass(frozen=True)
class _Stored:
    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    version: int
    state: TunerState


_STORED = TypeAdapter(_Stored)
