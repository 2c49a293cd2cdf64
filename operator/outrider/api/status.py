"""``status`` of a SpeculativeModel: the observed state, and the decisions of the tuner."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, PlainSerializer, WithJsonSchema

from outrider.api.conditions import Condition, StatusModel, Timestamp, room_for
from outrider.api.weights import WeightsStatus
from outrider_protocol.schedule import MAX_ROWS


def _decimal(digits: int) -> tuple[PlainSerializer, WithJsonSchema]:
    # Kubernetes advises against floats in APIs: their text differs between writers, which makes false diffs.
    return (
        PlainSerializer(lambda value: f"{value:.{digits}f}", return_type=str),
        WithJsonSchema({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "maxLength": 32}),
    )


Ratio = Annotated[float, *_decimal(2)]
"""A float in Python, a string with two decimals on the wire."""


Seconds = Annotated[float, *_decimal(4)]
"""A float in Python, a string with four decimals on the wire."""


Line = Annotated[str, room_for(512), Field(max_length=512)]
"""A schedule or a launch configuration in one line."""


class SpeculationState(StrEnum):
    """The state of speculation."""

    ACTIVE = "Active"
    """At least one batch size has K > 0."""
    SOFT_OFF = "SoftOff"
    """K is 0 for every batch size; the drafter stays loaded."""
    HARD_OFF = "HardOff"
    """The engines run without a drafter."""
    UNAVAILABLE = "Unavailable"
    """No engine reports a state."""


class SpeedupReference(StrEnum):
    """The reference of a speedup."""

    PROBE = "Probe"
    """Probes of K=0 on the same pods."""
    CANARY = "Canary"
    """A pod without speculation under the same traffic."""
    PRIOR = "Prior"
    """Not measured: an estimate of the tuner."""


class AppliedRow(StatusModel):
    """One row of the present schedule."""

    max_batch_size: Annotated[int, Field(ge=1)] | None = None
    """Maximum batch size of this row, inclusive; absent in the last row."""
    num_speculative_tokens: Annotated[int, Field(ge=0)]
    """K: draft tokens per request and step."""


class Speedup(StatusModel):
    """Goodput with the present schedule over goodput with K=0."""

    ratio: Ratio
    """Estimate; above 1 speculation pays. Example: 1.42."""
    low: Ratio | None = None
    """Lower end of the 95 % interval."""
    high: Ratio | None = None
    """Upper end of the 95 % interval."""
    summary: Annotated[str, room_for(32), Field(max_length=32)] | None = None
    """The ratio and half of its interval. Absent while the interval is too wide. Example: 1.26 ±0.08."""
    reference: SpeedupReference
    """Its reference."""
    measured_at: Timestamp
    """Time of the measurement."""


class LaunchGain(StatusModel):
    """Goodput with one launch over that with another one, each with the K that the tuner chose."""

    ratio: Ratio
    """Estimate; above 1 adaptive verification or the new drafter is better. Example: 1.06."""
    low: Ratio
    """Lower end of the 95 % interval."""
    high: Ratio
    """Upper end of the 95 % interval."""
    measured_at: Timestamp
    """End of the comparison."""


class DrafterGain(LaunchGain):
    """Goodput with a new drafter over that with the one before."""

    drafter: Annotated[str, room_for(512), Field(max_length=512)]
    """Address of the new drafter."""


class SpeculationStatus(StatusModel):
    """Speculation as the engines report it."""

    state: SpeculationState
    """The state of speculation."""
    simulated: Line | None = None
    """GPU and model that simulated engines imitate, such as h100_8b. Absent if all engines compute."""
    cuda_graphs: Line | None = None
    """vLLM's mode of CUDA graphs, such as FULL_AND_PIECEWISE. PIECEWISE is slower, because a schedule or a
    flag excludes full graphs; docs/reference/methods.md has remedies. Absent if no engine reports it."""
    idle_drafter: Line | None = None
    """The drafter in decode steps with K=0: Skipped, or Runs with the reason. docs/reference/control-api.md
    lists the engines that skip it. Absent if no engine reports it."""
    step_time_profile: Line | None = None
    """Number of step times that engines of this launch measured before they served. Names the pods that
    differ by more than 10 %. Absent if no engine measured any."""
    fast_loop: Line | None = None
    """How many engines choose K themselves at each step, within what the operator allows, and which K they
    use now. Absent while the schedule alone chooses K."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """Version of the last pushed schedule; it rises by one with every change."""
    schedule: Annotated[list[AppliedRow], Field(fail_fast=True, max_length=MAX_ROWS)] | None = None
    """The present schedule."""
    schedule_summary: Line | None = None
    """The same schedule in one line. Example: 8:3,32:1,*:0 is K=3 up to 8 requests, K=1 up to 32, then 0."""
    applied_replicas: Annotated[int, Field(ge=0)] | None = None
    """Number of pods that confirmed the schedule."""
    acceptance_rate: Ratio | None = None
    """Accepted over drafted tokens of the last minute, 0 to 1."""
    acceptance_length: Ratio | None = None
    """Mean tokens per drafted step, the bonus token included."""
    per_position_acceptance: Annotated[list[Ratio], Field(fail_fast=True, max_length=64)] | None = None
    """Acceptance rate at the first, second, … position, of the drafts that reach it. Without the plugin in
    the engine, it is a ratio of all drafts."""
    speedup: Speedup | None = None
    """Speedup over K=0; absent until it is measured, and while no replica serves."""
    verification: Line | None = None
    """Verification of most replicas, Fixed or Adaptive. Absent if the spec has Fixed."""
    verification_gain: LaunchGain | None = None
    """The last comparison of verification: Auto; absent before it is complete."""
    drafter_gain: DrafterGain | None = None
    """The last comparison of a new drafter with the one before; absent before it is complete. Needs
    tuning.canary: Allow."""


class LatencyStatus(StatusModel):
    """A latency target, and the percentile that the engines' histograms have."""

    percentile: Annotated[int, Field(ge=1, le=99)]
    """The percentile of tuning.slo."""
    limit_seconds: Seconds
    """Its limit."""
    at_least_seconds: Seconds | None = None
    """Lower edge of the bucket with the measured percentile; absent until it is measured."""
    at_most_seconds: Seconds | None = None
    """Upper edge of that bucket; absent above all edges."""
    kept: bool | None = None
    """Whether the percentile keeps the limit; absent while that is unknown."""


class SLOStatus(StatusModel):
    """The latency targets over the last two minutes."""

    inter_token_latency: LatencyStatus | None = None
    """Pause between two outputs of a request."""
    time_to_first_token: LatencyStatus | None = None
    """Time to the first token of a request."""
    summary: Line = ""
    """All of it in one line."""


class DecisionRecord(StatusModel):
    """One change of the schedule, or one that mode Auto would have made."""

    time: Timestamp
    """Time of the decision."""
    from_: Annotated[Line, Field(alias="from")]
    """The schedule before, in one line."""
    to: Line
    """The schedule after, in one line."""
    reason: Annotated[str, Field(max_length=128)]
    """Reason in one stable word."""
    message: Annotated[str, room_for(1024), Field(max_length=1024)] = ""
    """The cause with its numbers, in one sentence."""
    would: bool | None = None
    """True in mode Observe: mode Auto would have changed the schedule; nothing was changed."""
    expected_gain: Ratio | None = None
    """Expected goodput over goodput before. Example: 1.10 is 10 % more."""
    measured_gain: Ratio | None = None
    """Measured goodput after the change over goodput before."""


class Status(StatusModel):
    """The observed state."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the spec that this status is about."""
    reason: Annotated[str, Field(max_length=128)] | None = None
    """The reason of Degraded, or that of Ready if the model is not degraded. Example: Serving."""
    serving: Annotated[str, Field(max_length=32)] | None = None
    """Ready engine pods over the number in the spec. Example: 1/2."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """Number of engine pods."""
    ready_replicas: Annotated[int, Field(ge=0)] | None = None
    """Number of ready engine pods."""
    updated_replicas: Annotated[int, Field(ge=0)] | None = None
    """Number of engine pods of the current revision."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """Label selector of the engine pods, for autoscalers."""
    url: Annotated[str, Field(max_length=512)] | None = None
    """URL for OpenAI requests from inside the cluster."""
    conditions: Annotated[
        list[Condition],
        Field(
            fail_fast=True,
            max_length=32,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = Field(default_factory=list)
    """Conditions of the model."""
    weights: WeightsStatus | None = None
    """The weights of `spec.cache`: progress and result of the download."""
    speculation: SpeculationStatus | None = None
    """Speculation as the engines report it."""
    slo: SLOStatus | None = None
    """The latency targets of tuning.slo, as measured. Absent without targets."""
    decisions: Annotated[
        list[DecisionRecord],
        Field(max_length=5, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = Field(default_factory=list)
    """The last five decisions, newest first."""

    def condition(self, type_: str) -> Condition | None:
        """The condition of this type; None if it is absent."""
        return next((condition for condition in self.conditions if condition.type == type_), None)
