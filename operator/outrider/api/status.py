"""``status`` of a SpeculativeModel: what was observed, and what the tuner did."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, PlainSerializer, WithJsonSchema

from outrider.api.conditions import Condition, StatusModel, Timestamp, room_for
from outrider.api.schedule import MAX_ROWS
from outrider.api.weights import WeightsStatus


def _decimal(digits: int) -> tuple[PlainSerializer, WithJsonSchema]:
    # Kubernetes advises against floats in APIs: their text differs between writers, which makes false diffs.
    return (
        PlainSerializer(lambda value: f"{value:.{digits}f}", return_type=str),
        WithJsonSchema({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "maxLength": 32}),
    )


Ratio = Annotated[float, *_decimal(2)]
"""A float in Python, a string with two decimals on the wire."""


Line = Annotated[str, room_for(512), Field(max_length=512)]
"""A table or a launch in one line."""


class SpeculationState(StrEnum):
    """What speculation does at present."""

    ACTIVE = "Active"
    """At least one batch size has K > 0."""
    SOFT_OFF = "SoftOff"
    """K is 0 for every batch size; the drafter stays loaded."""
    HARD_OFF = "HardOff"
    """Launched without a drafter."""
    UNAVAILABLE = "Unavailable"
    """No engine reports a state."""


class SpeedupReference(StrEnum):
    """What a speedup is measured against."""

    PROBE = "Probe"
    """Short spans of K=0 on the same pods."""
    CANARY = "Canary"
    """A pod without speculation under the same traffic."""
    PRIOR = "Prior"
    """Not measured: the estimate of the model."""


class AppliedRow(StatusModel):
    """One row of the table in force."""

    max_batch_size: Annotated[int, Field(ge=1)] | None = None
    """Largest number of scheduled requests of this row, inclusive; absent in the last row."""
    num_speculative_tokens: Annotated[int, Field(ge=0)]
    """K: draft tokens per request and step."""


class Speedup(StatusModel):
    """Goodput with the table in force over goodput with K=0."""

    ratio: Ratio
    """Best estimate; above 1 speculation pays."""
    low: Ratio | None = None
    """Lower end of the 95 % interval."""
    high: Ratio | None = None
    """Upper end of the 95 % interval."""
    summary: Annotated[str, room_for(32), Field(max_length=32)] | None = None
    """The ratio and half of its interval in short; absent while that is too wide to be knowledge."""
    reference: SpeedupReference
    """What it is measured against."""
    measured_at: Timestamp
    """When it was measured."""


class SpeculationStatus(StatusModel):
    """Speculation as the engines report it."""

    state: SpeculationState
    """What speculation does at present."""
    simulated: Line | None = None
    """What engines stand in for that compute nothing, such as h100_8b; absent where all of them compute."""
    cuda_graphs: Line | None = None
    """vLLM's mode of CUDA graphs, such as FULL_AND_PIECEWISE. PIECEWISE costs speed, and says that a table or
    a flag took the full graphs away; docs/reference/methods.md has what helps. Absent where no one tells."""
    step_time_profile: Line | None = None
    """Number of step times that engines of this launch measured before they served. Names the pods that
    differ by more than 10 %. Absent if no engine measured any."""
    fast_loop: Line | None = None
    """How many engines choose K themselves at each step, within what the operator allows, and which K they
    use now. Absent while the schedule alone chooses K."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """Number of the last table that was pushed; it rises by one with every change."""
    schedule: Annotated[list[AppliedRow], Field(fail_fast=True, max_length=MAX_ROWS)] | None = None
    """The table in force."""
    schedule_summary: Line | None = None
    """The same schedule in one line. Example: 8:3,32:1,*:0 is K=3 up to 8 requests, K=1 up to 32, then 0."""
    applied_replicas: Annotated[int, Field(ge=0)] | None = None
    """Pods that confirmed the table."""
    acceptance_rate: Ratio | None = None
    """Accepted over drafted tokens, 0 to 1."""
    acceptance_length: Ratio | None = None
    """Mean tokens per drafted step, the bonus token included."""
    per_position_acceptance: Annotated[list[Ratio], Field(fail_fast=True, max_length=64)] | None = None
    """Share of drafts whose first, second, … token was accepted, of those that are so long; of all drafts
    where the engine lacks the plugin."""
    speedup: Speedup | None = None
    """Gain over K=0; absent until measured, and while no replica serves."""


class DecisionRecord(StatusModel):
    """One change of the table, or one that Observe would have made."""

    time: Timestamp
    """When it was decided."""
    from_: Annotated[Line, Field(alias="from")]
    """The table before, in one line."""
    to: Line
    """The table after, in one line."""
    reason: Annotated[str, Field(max_length=128)]
    """Stable word for the cause."""
    message: Annotated[str, room_for(1024), Field(max_length=1024)] = ""
    """One sentence with the numbers."""
    would: bool | None = None
    """Mode Observe: what Auto would have done. Nothing was changed."""
    expected_gain: Ratio | None = None
    """Expected goodput over goodput before; 1.10 is 10 % more."""
    measured_gain: Ratio | None = None
    """The same, measured after the change."""


class Status(StatusModel):
    """What was observed."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the spec that this status is about."""
    reason: Annotated[str, Field(max_length=128)] | None = None
    """How the model is, in one word: the reason of Degraded, and that of Ready where nothing is wrong."""
    serving: Annotated[str, Field(max_length=32)] | None = None
    """Engine pods that serve, and how many the spec wants, such as 1/2."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """Engine pods that exist."""
    ready_replicas: Annotated[int, Field(ge=0)] | None = None
    """Engine pods that serve."""
    updated_replicas: Annotated[int, Field(ge=0)] | None = None
    """Engine pods of the current revision."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """Label selector of the engine pods, for autoscalers."""
    url: Annotated[str, Field(max_length=512)] | None = None
    """Where clients in the cluster send OpenAI requests."""
    conditions: Annotated[
        list[Condition],
        Field(
            fail_fast=True,
            max_length=32,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = Field(default_factory=list)
    """Statements about the model."""
    weights: WeightsStatus | None = None
    """The weights of `spec.cache`: how far the download is, and what it brought."""
    speculation: SpeculationStatus | None = None
    """Speculation as the engines report it."""
    decisions: Annotated[
        list[DecisionRecord],
        Field(max_length=5, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = Field(default_factory=list)
    """The last five decisions, newest first."""

    def condition(self, type_: str) -> Condition | None:
        """The condition of this type, None when it is absent."""
        return next((condition for condition in self.conditions if condition.type == type_), None)
