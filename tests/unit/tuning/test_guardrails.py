"""Each guardrail alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.choose.guardrails import Step
from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.observe.readings import Readings, read
from outrider.tuning.observe.window import Gap, GapReason, Observation
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import CANDIDATES, a_policy, a_start, a_window, with_parts

NOW = 1000.0


def a_context(
    *,
    bin_state: BinState | None = None,
    policy: Policy | None = None,
    waiting: float = 0.0,
    kv_usage: float = 0.1,
    step_seconds: float = 0.03,
    **state: object,
) -> TickContext:
    policy = policy or a_policy()
    windows = (a_window(waiting=waiting, kv_usage=kv_usage),)
    n = len(CANDIDATES)
    belief = Posterior(CANDIDATES, 8.0, np.zeros(n), np.eye(n) * 1e-4, np.full(n, np.log(step_seconds)))
    index = policy.bin_of(8.0)
    tuner = with_parts(a_start(), **{"profile": Profile((100.0,), (60.0,)), **state})
    tuner = tuner.with_bin(index, bin_state or BinState(k=2, decided=True, visited=True, settled_at=0.0))
    return TickContext(
        windows,
        tuner,
        policy=policy,
        now=NOW,
        tick_seconds=5.0,
        readings=read(windows, Schedule.constant(3), policy),
        posteriors={index: belief},
    )


def reason(veto: guardrails.Veto | None) -> DecisionReason | None:
    return None if veto is None else veto.reason


def seen(*observations: Observation, bin_known: bool = True, mixed: int = 0) -> TickContext:
    rows = read([a_window()], Schedule.constant(3), a_policy()).rows if bin_known else ()
    readings = Readings(rows, mixed, exact=False)
    return TickContext(observations, a_start(), policy=a_policy(), now=NOW, readings=readings)


def test_a_gap_on_one_pod_holds_and_names_it() -> None:
    veto = guardrails.gap(seen(a_window(), Gap("default/b", GapReason.STALE, "91 s old")))
    assert veto is not None
    assert veto.reason is DecisionReason.METRICS_GAP
    assert veto.sentence == "1/2 pods are not measured; default/b: Stale: 91 s old"


def test_a_pod_that_waits_for_its_next_sample_holds_nobody_who_has_news() -> None:
    waiting = Gap("default/b", GapReason.TOO_SHORT, "1 of 2 samples needed")
    assert guardrails.gap(seen(a_window(), waiting)) is None
    assert reason(guardrails.gap(seen(waiting))) is DecisionReason.METRICS_GAP


def test_a_pod_that_waits_for_its_next_sample_hides_no_other_gap() -> None:
    waiting, stale = Gap("default/b", GapReason.TOO_SHORT), Gap("default/c", GapReason.STALE, "91 s old")
    veto = guardrails.gap(seen(a_window(), waiting, stale))
    assert veto is not None
    assert veto.sentence == "1/3 pods are not measured; default/c: Stale: 91 s old"


def test_nobody_measured_holds() -> None:
    assert reason(guardrails.gap(seen())) is DecisionReason.METRICS_GAP
    assert guardrails.gap(seen(a_window())) is None


def test_only_mixed_windows_hold() -> None:
    assert reason(guardrails.mixed_window(seen(bin_known=False, mixed=1))) is DecisionReason.MIXED_WINDOW
    assert guardrails.mixed_window(seen(mixed=1)) is None


def test_no_traffic_holds() -> None:
    assert reason(guardrails.no_traffic(seen(bin_known=False))) is DecisionReason.NO_TRAFFIC
    assert guardrails.no_traffic(seen()) is None


RAISING: list[tuple[Callable[[Step], guardrails.Veto | None], TickContext, DecisionReason]] = [
    (guardrails.acceptance_collapse, a_context(collapsed=2), DecisionReason.ACCEPTANCE_COLLAPSED),
    (
        guardrails.acceptance_floor,
        a_context(profile=Profile((1000.0,), (50.0,))),
        DecisionReason.ACCEPTANCE_LOW,
    ),
    (guardrails.kv_pressure, a_context(kv_usage=0.97), DecisionReason.KV_PRESSURE),
]


@pytest.mark.parametrize(("check", "context", "expected"), RAISING, ids=lambda v: getattr(v, "__name__", ""))
def test_k_does_not_rise_but_may_fall(
    check: Callable[[Step], guardrails.Veto | None], context: TickContext, expected: DecisionReason
) -> None:
    assert reason(check(Step(3, context))) is expected
    assert check(Step(1, context)) is None
    assert check(Step(3, a_context())) is None


def test_a_collapse_of_one_tick_is_not_believed() -> None:
    assert guardrails.acceptance_collapse(Step(3, a_context(collapsed=1))) is None


def test_a_settled_k_rests() -> None:
    fresh = BinState(k=2, settled_at=NOW - 5.0)
    assert reason(guardrails.dwell(Step(3, a_context(bin_state=fresh)))) is DecisionReason.RECENT_CHANGE
    assert guardrails.dwell(Step(3, a_context(bin_state=fresh), revert=True)) is None
    assert guardrails.dwell(Step(3, a_context(bin_state=replace(fresh, settled_at=None)))) is None
    assert guardrails.dwell(Step(3, a_context(bin_state=replace(fresh, settled_at=0.0)))) is None


def test_a_settled_k_changes_a_few_times_per_hour_only() -> None:
    restless = BinState(k=2, settled_at=NOW - 60, changed_at=NOW - 60, switches=6.0)
    assert (
        reason(guardrails.rate_limit(Step(3, a_context(bin_state=restless)))) is DecisionReason.RATE_LIMITED
    )
    assert guardrails.rate_limit(Step(3, a_context(bin_state=restless), revert=True)) is None
    assert guardrails.rate_limit(Step(3, a_context(bin_state=replace(restless, settled_at=None)))) is None
    assert (
        guardrails.rate_limit(Step(3, a_context(bin_state=replace(restless, changed_at=NOW - 3600)))) is None
    )


def test_nothing_is_tried_while_requests_wait() -> None:
    assert reason(guardrails.queue(a_context(waiting=2))) is DecisionReason.REQUESTS_QUEUED
    assert guardrails.queue(a_context()) is None


def test_nothing_is_tried_while_the_cache_is_full() -> None:
    assert reason(guardrails.kv_full(a_context(kv_usage=0.97))) is DecisionReason.KV_PRESSURE
    assert guardrails.kv_full(a_context()) is None


def test_nothing_is_tried_without_latency_to_spare() -> None:
    slo = a_policy(inter_token_latency_limit=0.05)
    slow = guardrails.latency_slack(a_context(policy=slo, step_seconds=0.06))
    assert reason(slow) is DecisionReason.LATENCY_LIMIT_REACHED
    assert guardrails.latency_slack(a_context(policy=slo, step_seconds=0.04)) is None
    assert guardrails.latency_slack(a_context(step_seconds=9.0)) is None


def test_nothing_is_tried_with_a_drafter_that_may_be_broken() -> None:
    smallest = BinState(k=0)
    assert (
        reason(guardrails.collapse(a_context(bin_state=smallest, collapsed=2)))
        is DecisionReason.ACCEPTANCE_COLLAPSED
    )
    assert guardrails.collapse(a_context(bin_state=smallest)) is None


def test_a_smaller_k_is_tried_with_a_drafter_that_may_be_broken() -> None:
    context = a_context(bin_state=BinState(k=2), collapsed=2)
    assert guardrails.collapse(context) is None
    assert choice.smaller(context) == (0, 1)


def test_every_guardrail_is_asked() -> None:
    asked = {*guardrails.OBSERVATIONS, *guardrails.STEP, *guardrails.PROBING}
    names = {check.__name__ for check in asked}
    assert names == {
        *("gap", "mixed_window", "no_traffic"),
        *("acceptance_collapse", "acceptance_floor", "kv_pressure", "dwell", "rate_limit"),
        *("queue", "kv_full", "latency_slack", "collapse", "uncounted_steps"),
    }
