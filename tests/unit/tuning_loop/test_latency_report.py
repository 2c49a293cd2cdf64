"""What the status says of latency targets: figures, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outrider.api.conditions import ConditionStatus, ConditionUpdate
from outrider.api.reasons import SLOReason
from outrider.api.status import SLOStatus
from outrider.api.tuning import TuningMode
from outrider.controller.tune.latency_report import first_token_is_late, slo_kept, slo_status
from outrider.controller.tune.outcome import Observed, TickOutcome
from outrider.controller.tune.permission import PermissionInput, permission
from outrider.tuning.decision import LatencyOutlook
from outrider.tuning.latency_targets import LatencyTarget, LatencyTargets, RecentLatencies
from outrider.tuning.observe.latencies import Latencies
from outrider_protocol.schedule import Schedule
from tests.unit.reasons.tuner_scenes import MODEL, an_outcome
from tests.unit.tuning.factories import a_window
from tests.unit.tuning_loop.factories import NOW, an_override

EDGES = (0.01, 0.025, 0.05, 0.075)
SLOW = Latencies(EDGES, (0, 0, 5, 95, 0))
"""The 90th percentile is 50 to 75 ms."""
PAUSE, FIRST = LatencyTarget(90, 0.03), LatencyTarget(90, 0.05)
OUTLOOK = LatencyOutlook(batch_size=8.0, keeping=(), quickest=0, seconds=0.045, largest_batch=3.5, alone=0.02)


def recent(pause: Latencies | None = None, first: Latencies | None = None) -> RecentLatencies:
    window = replace(a_window(), latencies=pause, first_token_latencies=first)
    return RecentLatencies().after([window], NOW)


def a_tick(
    *,
    pause: LatencyTarget | None = PAUSE,
    first: LatencyTarget | None = None,
    mode: TuningMode = TuningMode.AUTO,
    k: int = 3,
    waiting: float = 0.0,
    **changes: object,
) -> TickOutcome:
    model = replace(MODEL, mode=mode, targets=LatencyTargets(pause, first))
    rule = permission(PermissionInput(model.instructions, mode, NOW, settled_at=0.0))
    observed = Observed((replace(a_window(), requests_waiting=waiting),))
    return an_outcome(
        **{
            "model": model,
            "permission": rule,
            "wanted": Schedule.constant(k),
            "observations": observed.observations,
            "latency": OUTLOOK,
            **changes,
        }
    )


def condition(outcome: TickOutcome, latencies: RecentLatencies) -> ConditionUpdate:
    found = slo_kept(outcome, latencies)
    assert found is not None
    return found


def status(outcome: TickOutcome, latencies: RecentLatencies) -> SLOStatus:
    found = slo_status(outcome, latencies)
    assert found is not None
    return found


def test_without_targets_or_pods_nothing_is_reported() -> None:
    assert slo_kept(a_tick(pause=None), recent(SLOW)) is None
    assert slo_status(a_tick(pause=None), recent(SLOW)) is None
    nobody = a_tick()
    nobody = replace(nobody, model=replace(nobody.model, pods=()))
    assert slo_kept(nobody, recent(SLOW)) is None


def test_a_broken_target_is_reported_with_percentile_and_limit() -> None:
    found = condition(a_tick(), recent(SLOW))
    assert (found.status, found.reason) == (ConditionStatus.FALSE, SLOReason.INTER_TOKEN_LATENCY)
    assert found.message.startswith("p90 between two outputs is 50 ms to 75 ms, limit 30 ms.")


def test_more_replicas_help_while_a_smaller_batch_keeps_the_limit() -> None:
    message = condition(a_tick(k=0), recent(SLOW)).message
    assert "At a batch of 8 requests no K keeps it; K=0 has the shortest steps, 45 ms." in message
    assert "Up to 3 requests per step a K keeps it." in message
    assert "outrider_required_replicas" in message
    assert "max-num-seqs: 3" in message


def test_more_replicas_do_not_help_where_one_request_breaks_the_limit() -> None:
    outlook = replace(OUTLOOK, largest_batch=0.0, alone=0.04)
    message = condition(a_tick(k=0, latency=outlook), recent(SLOW)).message
    assert "One request alone takes 40 ms, so more replicas do not help." in message


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"mode": TuningMode.OBSERVE}, "set tuning.mode: Auto"),
        ({}, "The tuner changes K at a next tick"),
    ],
)
def test_a_k_that_would_keep_it_is_named_with_why_it_does_not_run(
    changes: dict[str, Any], cause: str
) -> None:
    outlook = replace(OUTLOOK, keeping=(0, 1))
    message = condition(a_tick(latency=outlook, **changes), recent(SLOW)).message
    assert "K=3 runs; the tuner expects K=0, 1 to keep the limit." in message
    assert cause in message


def test_an_override_that_breaks_the_target_is_named() -> None:
    rule = permission(PermissionInput(an_override(k=3), TuningMode.AUTO, NOW, settled_at=0.0))
    outcome = a_tick(latency=replace(OUTLOOK, keeping=(0,)), permission=rule)
    assert rule.message in condition(outcome, recent(SLOW)).message


def test_a_percentile_in_the_bucket_of_the_limit_is_judged_by_the_step_times() -> None:
    outlook = replace(OUTLOOK, keeping=(0, 1))
    near = recent(Latencies(EDGES, (0, 50, 50, 0, 0)))
    kept = condition(a_tick(k=1, latency=outlook), near)
    assert (kept.status, kept.reason) == (ConditionStatus.TRUE, SLOReason.KEPT)
    unknown = condition(a_tick(k=3, latency=outlook), near)
    assert (unknown.status, unknown.reason) == (ConditionStatus.UNKNOWN, SLOReason.BETWEEN_EDGES)
    assert "set the limit to 25 ms or 50 ms" in unknown.message


def test_a_late_first_token_while_requests_wait_asks_for_replicas() -> None:
    outcome = a_tick(pause=None, first=FIRST, waiting=12)
    found = condition(outcome, recent(first=SLOW))
    assert found.reason is SLOReason.TIME_TO_FIRST_TOKEN
    assert "12 requests wait" in found.message
    assert first_token_is_late(outcome, slo_status(outcome, recent(first=SLOW)))


def test_a_late_first_token_without_a_queue_does_not_ask_for_replicas() -> None:
    outcome = a_tick(pause=None, first=FIRST)
    assert "more replicas may not help" in condition(outcome, recent(first=SLOW)).message
    assert not first_token_is_late(outcome, slo_status(outcome, recent(first=SLOW)))


def test_the_status_has_the_bucket_of_the_percentile() -> None:
    found = status(a_tick(), recent(SLOW)).inter_token_latency
    assert found is not None
    assert found.at_least_seconds == pytest.approx(0.05)
    assert found.at_most_seconds == pytest.approx(0.075)
    assert (found.percentile, found.limit_seconds, found.kept) == (90, 0.03, False)


def test_a_percentile_above_all_edges_has_no_upper_one() -> None:
    found = status(a_tick(), recent(Latencies(EDGES, (0, 0, 0, 0, 20))))
    assert found.inter_token_latency is not None
    assert found.inter_token_latency.at_most_seconds is None
    assert found.summary == "p90 between two outputs is above 75 ms, limit 30 ms"


def test_before_the_first_measurement_no_histogram_is_missed() -> None:
    found = condition(a_tick(), RecentLatencies())
    assert (found.status, found.reason) == (ConditionStatus.UNKNOWN, SLOReason.TOO_FEW)


def test_without_a_histogram_the_status_has_the_target_alone() -> None:
    found = condition(a_tick(), recent())
    assert (found.status, found.reason) == (ConditionStatus.UNKNOWN, SLOReason.NO_HISTOGRAM)
    target = status(a_tick(), recent()).inter_token_latency
    assert target is not None
    assert (target.limit_seconds, target.at_least_seconds, target.kept) == (0.03, None, None)
