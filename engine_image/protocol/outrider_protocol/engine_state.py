"""The state of an engine, as ``GET /outrider/v1/state`` answers it: plain types that cross process borders.

docs/reference/control-api.md describes each field. The operator reads them with limits of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NotRequired, TypedDict


class Source(StrEnum):
    """Where the schedule in force comes from."""

    STATIC = "Static"
    """The static schedule; no push since the engine started."""
    PUSHED = "Pushed"
    """A pushed schedule under a valid lease."""
    FALLBACK = "Fallback"
    """The lease of the last push ended; the static schedule is in force."""


class LiveTuning(TypedDict):
    """Whether the schedule can change while the engine runs, and if not, why."""

    possible: bool
    reason: str | None


class ProbeReason(StrEnum):
    """State of a probe."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    """Every part ran its steps or seconds."""
    DEADLINE = "Deadline"
    """The deadline came first: the batch was in another bin, or the parts were too long."""
    SUPERSEDED = "Superseded"
    """A newer push arrived."""
    LEASE_LAPSED = "LeaseLapsed"
    """The lease of the schedule ended."""


class SliceResult(TypedDict):
    """Sums over the steps of one part that drafted and verified its K. ``seconds`` is engine time."""

    numSpeculativeTokens: int
    steps: int
    seconds: float
    scheduledRequests: int
    emittedTokens: int


class ProbeState(TypedDict):
    """The running probe, or the last one. ``results``: one entry per part that began."""

    id: str
    minBatchSize: int
    maxBatchSize: int | None
    running: bool
    reason: str
    results: list[SliceResult]


class SelfTestState(StrEnum):
    """State of the self-test."""

    SKIPPED = "Skipped"
    RUNNING = "Running"
    PASSED = "Passed"
    FAILED = "Failed"


class SelfTestWire(TypedDict):
    """The self-test as the state shows it. The engine refuses a schedule with a K of ``failedK``."""

    state: str
    detail: str
    failedK: list[int]


class SweepState(StrEnum):
    """State of the startup profile."""

    SKIPPED = "Skipped"
    RUNNING = "Running"
    MEASURED = "Measured"
    """There is a profile, possibly with missing cells."""
    FAILED = "Failed"
    """There is no profile."""


class SweepWire(TypedDict):
    """The startup profile as the state shows it."""

    state: str
    detail: str


class StepTime(TypedDict):
    """One cell of the profile. ``contextTokens``: mean per request. ``error``: relative standard error."""

    batchSize: int
    numSpeculativeTokens: int
    contextTokens: float
    stepSeconds: float
    error: float
    steps: int


class Inactive(StrEnum):
    """Why the schedule decides and the fast loop does not."""

    IMPOSSIBLE = "Impossible"
    """This engine takes no cost model; ``reason`` of the state says why."""
    NO_COST_MODEL = "NoCostModel"
    """The push in force has none, or the engine got no push."""
    LEASE_LAPSED = "LeaseLapsed"
    """The lease of the push ended, and the cost model with it."""
    REFUSED = "Refused"
    """This engine cannot use the pushed cost model."""
    DISAGREES = "Disagrees"
    """The engine's own steps disagree with the cost model."""
    NOT_COUNTED = "NotCounted"
    """The counting of steps is paused."""


class StepsOfK(TypedDict):
    """Steps in which the fast loop chose this K. ``seconds`` is engine time."""

    numSpeculativeTokens: int
    steps: int
    seconds: float


class FastLoopWire(TypedDict):
    """The fast loop: whether the engine chooses K at each step by a pushed cost model."""

    possible: bool
    reason: str | None
    revision: str
    active: bool
    inactiveReason: str | None
    inactiveDetail: str | None
    numSpeculativeTokens: int | None
    lastChange: str | None
    changes: dict[str, int]
    looks: int
    lookSeconds: float
    steps: list[StepsOfK]
    survival: list[float] | None
    hookSeconds: float


class VerificationWire(TypedDict):
    """How drafts are verified. ``trimmedDraftsCounted`` is None without adaptive verification.

    Where it is False, ``reason`` says why. There trimmed drafts count as rejected ones.
    """

    adaptive: bool
    trimmedDraftsCounted: bool | None
    reason: str | None


class IdleDrafterWire(TypedDict):
    """Whether decode steps with K=0 skip the drafter, and if not, why."""

    skipped: bool
    reason: str | None


class State(TypedDict):
    """The whole answer. Unknown is None; term and epoch start at 0."""

    bootId: str
    engineVersion: str | None
    pluginVersion: str
    simulated: str | None
    method: str | None
    runner: str | None
    cudaGraphs: str | None
    maxNumSeqs: int | None
    numSpeculativeTokens: int | None
    capturedK: list[int]
    liveTuning: LiveTuning
    schedule: list[dict[str, int]] | None
    source: str
    term: int
    epoch: int
    leaseRemainingSeconds: float | None
    measuring: bool
    probe: ProbeState | None
    verification: VerificationWire
    fastLoop: FastLoopWire
    idleDrafter: IdleDrafterWire | None
    selfTest: SelfTestWire
    startupProfile: SweepWire
    stepTimes: NotRequired[list[StepTime]]  # where the state is asked for, not where it is an answer
    engines: int
    enginesAgree: bool
    problems: list[str]
