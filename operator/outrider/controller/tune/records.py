"""The records of a tick beside the status: own metrics, log and trace."""

from __future__ import annotations

import logging

from outrider.api.status import SLOStatus
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.traces import annotate_span, has_span
from outrider.controller.tune.demand import Capacity, LatencyDemand, demand
from outrider.controller.tune.latency_report import first_token_is_late
from outrider.controller.tune.outcome import TickOutcome
from outrider_protocol.schedule import Schedule

log = logging.getLogger(__name__)


def record(outcome: TickOutcome, metrics: OwnMetrics, slo: SLOStatus | None = None) -> None:
    """Count, log and trace one tick. slo: the latency targets as reported."""
    _count(outcome, metrics)
    _show_demand(outcome, metrics, slo)
    _log(outcome)
    if has_span():
        _trace(outcome)


def _count(outcome: TickOutcome, metrics: OwnMetrics) -> None:
    key = outcome.model.key
    push, probe = outcome.actuated.push, outcome.actuated.probe
    metrics.tuning.ticked(key, outcome.decision, outcome.model.policy)
    if probe is not None:
        if probe.error is None:
            metrics.tuning.probed(key, probe.probe)
        ran = "started" if probe.error is None else "failed" if probe.failed else "busy"
        metrics.probes.labels(ran).inc()
    if push is not None:
        metrics.pushes.labels("confirmed").inc(len(push.confirmed) - push.kept)
        metrics.pushes.labels("failed").inc(len(push.failed))


def _show_demand(outcome: TickOutcome, metrics: OwnMetrics, slo: SLOStatus | None) -> None:
    model = outcome.model
    latency = LatencyDemand(
        largest_batch=0.0 if outcome.latency is None else outcome.latency.largest_batch,
        first_token_late=first_token_is_late(outcome, slo),
    )
    needs = demand(
        outcome.observed.observations,
        replicas=len(model.pods),
        table=Schedule.constant(0) if outcome.without_drafter else outcome.actuated.in_force or model.static,
        capacity=Capacity(outcome.engines.max_num_seqs, model.max_num_batched_tokens, model.ranks),
        latency=latency,
    )
    if needs is not None:
        metrics.demand.show(
            model.namespace,
            model.name,
            required_replicas=needs.required_replicas,
            saturation_ratio=needs.saturation_ratio,
            now=outcome.now,
        )


def _log(outcome: TickOutcome) -> None:
    key = outcome.model.key
    decision, probe, launch = outcome.decision, outcome.actuated.probe, outcome.actuated.launch
    if outcome.reset is not None:
        log.info("%s: %s", key, outcome.reset)
    if decision is not None:
        level = logging.INFO if decision.changed else logging.DEBUG
        log.log(level, "%s: %s (%s): %s", key, decision.kind, decision.reason, decision.sentence)
    if launch is not None and launch.error is not None:
        log.warning("%s: the launch order failed: %s", key, launch.error)
    elif launch is not None and launch.ordered:
        log.info("%s: %s: %s", key, launch.verdict.reason, launch.verdict.sentence)
    if probe is not None:
        log.log(logging.WARNING if probe.failed else logging.INFO, "%s: %s", key, probe)


def _trace(outcome: TickOutcome) -> None:
    decision, push, probe = outcome.decision, outcome.actuated.push, outcome.actuated.probe
    annotate_span(mode=outcome.model.mode, tuning=outcome.permission.reason, table=str(outcome.wanted))
    if outcome.observed.error is not None:
        annotate_span(metrics=outcome.observed.error.reason)
    if decision is not None:
        annotate_span(decision=decision.kind, reason=decision.reason, changed=decision.changed)
        annotate_span(k=decision.num_speculative_tokens, batch_size=decision.batch_size)
    if push is not None:
        annotate_span(pushes_confirmed=len(push.confirmed), pushes_failed=len(push.failed))
    if probe is not None:
        annotate_span(probe="started" if probe.error is None else "not started")
