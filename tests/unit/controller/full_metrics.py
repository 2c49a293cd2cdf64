"""An operator that shows everything it can show of one model."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from prometheus_client import Metric

from outrider.api.conditions import Condition, ConditionStatus, ConditionType
from outrider.api.reasons import DecisionReason
from outrider.api.status import (
    AppliedRow,
    DrafterGain,
    LatencyStatus,
    SLOStatus,
    SpeculationState,
    SpeculationStatus,
    Speedup,
    SpeedupReference,
    Status,
)
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.status_metrics import ShownModel
from outrider.controller.stored import Key
from outrider.tuning.decision import Decision, Kind, Probe, Slice
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, Ledger, ProbeCost, TunerState
from outrider_protocol.bins import geometric_bins
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import with_parts
from tests.unit.tuning.launching import an_outlook

QWEN = Key("prod", "qwen3")
POLICY = Policy((0, 1, 3), max_num_seqs=64)
MODEL = {"model_namespace": "prod", "model": "qwen3"}
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def a_full_status(*, positions: int = 3) -> Status:
    """Every condition, and every number."""
    conditions = [
        Condition(
            type=kind, status=ConditionStatus.TRUE, reason=next(iter(kind.reasons)), last_transition_time=THEN
        )
        for kind in ConditionType
    ]
    speculation = SpeculationStatus(
        state=SpeculationState.ACTIVE,
        simulated="h100_8b",
        schedule=[
            AppliedRow(max_batch_size=8, num_speculative_tokens=3),
            AppliedRow(num_speculative_tokens=0),
        ],
        applied_replicas=1,
        acceptance_rate=0.7,
        acceptance_length=2.4,
        per_position_acceptance=[0.9**position for position in range(positions)],
        speedup=Speedup(ratio=1.4, low=1.3, high=1.5, reference=SpeedupReference.CANARY, measured_at=THEN),
        drafter_gain=DrafterGain(drafter="hf://org/new", ratio=1.1, low=1.05, high=1.15, measured_at=THEN),
    )
    slo = SLOStatus(
        inter_token_latency=LatencyStatus(
            percentile=90, limit_seconds=0.03, at_least_seconds=0.025, at_most_seconds=0.05, kept=False
        ),
        time_to_first_token=LatencyStatus(percentile=95, limit_seconds=2.0, kept=None),
    )
    return Status(conditions=conditions, speculation=speculation, slo=slo, ready_replicas=2)


def a_full_model(key: Key = QWEN, status: Status | None = None, *, max_num_seqs: int = 64) -> ShownModel:
    return ShownModel(key, status or a_full_status(), geometric_bins(max_num_seqs))


def a_decision(
    kind: Kind = Kind.HOLD,
    reason: DecisionReason = DecisionReason.SETTLED,
    *,
    batch_size: float | None = 6.0,
    loss: float = 0.6,
) -> Decision:
    """loss: seconds of goodput that recent slices are believed to have cost."""
    bins = {0: BinState(1, visited=True, settled_at=1.0), 2: BinState(3, visited=True), 3: BinState(0)}
    ledger = Ledger(gain=0.05, weight=0.5)
    probes = (ProbeCost(0, 3, seconds=1.0, loss=loss),)
    state = with_parts(
        TunerState.start(Schedule.constant(3), POLICY), bins=bins, probes=probes, ledger=ledger
    )
    decision = Decision(kind, reason, "", state, state.schedule)
    if batch_size is None:
        return decision
    outlook = an_outlook()
    posterior = replace(outlook.posterior, batch_size=batch_size)
    return replace(decision, outlook=replace(outlook, posterior=posterior))


def full_metrics() -> OwnMetrics:
    metrics = OwnMetrics()
    metrics.status.follow(lambda: [a_full_model()])
    metrics.tuning.ticked(QWEN, a_decision(), POLICY)
    metrics.tuning.probed(QWEN, Probe("prod/a", 4, 6, (Slice(1, 1.0), Slice(0, 2.5))))
    metrics.demand.show(*QWEN, required_replicas=1, saturation_ratio=0.5, now=0)
    metrics.other_installations.set(0)
    metrics.left_out.labels("unreadable").inc()
    for counter in (metrics.reconciles, metrics.pushes, metrics.probes):
        counter.labels("done").inc(0)
    return metrics


def families(metrics: OwnMetrics) -> dict[str, Metric]:
    """What the operator adds to what every process shows, by the name in the page of reference."""
    found = (family for family in metrics.registry.collect() if family.name.startswith("outrider_"))
    return {f"{each.name}_total" if each.type == "counter" else each.name: each for each in found}


def series_names(metrics: OwnMetrics) -> frozenset[str]:
    """The names under which Prometheus stores them."""
    samples = (sample for family in metrics.registry.collect() for sample in family.samples)
    return frozenset(sample.name for sample in samples)
