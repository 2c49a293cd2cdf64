"""How many replicas the load needs, and how autoscalers see it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from outrider.controller.own_metrics import DemandMetrics
from outrider.controller.tune.demand import NO_TARGETS, Capacity, Demand, LatencyDemand, demand
from outrider.tuning.observe.window import Gap, GapReason, Observation, Window
from outrider_protocol.schedule import Row, Schedule

K0 = Schedule.constant(0)
HUNDRED = Capacity(100)


def a_window(*, batch: float = 50, waiting: float | None = 0, kv: float | None = 0.0) -> Window:
    return Window(
        pod="default/a",
        started_at=0,
        ended_at=10,
        engine_steps=100,
        request_steps=100 * batch,
        first_tokens=0,
        decode_seconds=2 * batch,
        decode_tokens=100 * batch,
        drafts=0,
        draft_tokens=0,
        accepted_tokens=0,
        accepted_per_position=(),
        prefill_tokens=0,
        requests_waiting=waiting,
        kv_usage_ratio=kv,
        batch_low=batch,
        batch_high=batch,
    )


def needs(
    *seen: Observation,
    replicas: int = 1,
    table: Schedule = K0,
    capacity: Capacity = HUNDRED,
    latency: LatencyDemand = NO_TARGETS,
) -> Demand:
    found = demand(seen, replicas=replicas, table=table, capacity=capacity, latency=latency)
    assert found is not None
    return found


def test_a_half_full_pod_is_enough() -> None:
    assert needs(a_window(batch=50)) == Demand(1, 0.5)


def test_a_replica_is_wanted_before_the_last_one_is_full() -> None:
    assert needs(a_window(batch=80)).required_replicas == 1
    assert needs(a_window(batch=81)).required_replicas == 2


def test_waiting_requests_count_as_if_they_ran() -> None:
    assert needs(a_window(batch=100, waiting=140)) == Demand(3, 2.4)


def test_a_full_kv_cache_is_saturation_at_any_batch() -> None:
    assert needs(a_window(batch=10, kv=1.0)).saturation_ratio == 1.0
    assert needs(a_window(batch=10, waiting=10, kv=1.0)).saturation_ratio == 2.0


def test_depth_eats_the_token_budget() -> None:
    budget = Capacity(100, max_num_batched_tokens=200)
    assert needs(a_window(batch=50), capacity=budget).saturation_ratio == 0.5
    assert needs(a_window(batch=50), capacity=budget, table=Schedule.constant(3)).saturation_ratio == 1.0


def test_a_table_that_gives_up_depth_under_load_needs_fewer_replicas() -> None:
    budget = Capacity(100, max_num_batched_tokens=200)
    assert (
        needs(a_window(batch=50), capacity=budget, table=Schedule.parse("32:3,*:0")).saturation_ratio == 0.5
    )


def test_a_budget_below_one_request_still_holds_one() -> None:
    assert Capacity(100, max_num_batched_tokens=2).at(Schedule.constant(5)) == 1


def test_pods_are_averaged_and_summed() -> None:
    assert needs(a_window(batch=100), a_window(batch=60), replicas=2) == Demand(2, 0.8)


def test_a_pod_without_a_window_counts_like_the_others() -> None:
    gap = Gap("default/b", GapReason.TOO_SHORT)
    assert needs(a_window(batch=80), gap, replicas=2) == Demand(2, 0.8)


def test_without_any_window_nothing_is_said() -> None:
    assert demand([Gap("default/a", GapReason.STALE)], replicas=1, table=K0, capacity=HUNDRED) is None
    assert demand([], replicas=0, table=K0, capacity=HUNDRED) is None


def test_an_idle_model_keeps_one_replica() -> None:
    assert needs(a_window(batch=0), replicas=3) == Demand(1, 0.0)


@pytest.mark.parametrize("window", [a_window(waiting=None), a_window(kv=None)], ids=["waiting", "kv"])
def test_a_pod_that_does_not_show_a_gauge_counts_like_the_others_and_not_as_idle(window: Window) -> None:
    assert demand([window], replicas=1, table=K0, capacity=HUNDRED) is None
    assert needs(a_window(batch=80), window, replicas=2) == Demand(2, 0.8)


TABLES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 8)), max_size=4, unique_by=lambda row: row[0])


@given(TABLES, st.integers(0, 8), st.integers(1, 60), st.integers(1, 200))
def test_the_largest_batch_that_fits_is_found_without_trying_each(
    rows: list[tuple[int, int]], last: int, largest: int, budget: int
) -> None:
    table = Schedule((*(Row(limit, k) for limit, k in sorted(rows)), Row(None, last)))
    fits = [b for b in range(1, largest + 1) if b * (1 + table.k_at(b)) <= budget]
    assert Capacity(largest, budget).at(table) == max(fits, default=1)


def test_where_nobody_says_the_largest_batch_a_queue_says_that_a_pod_is_full() -> None:
    unknown = Capacity(None)
    assert needs(a_window(batch=200), capacity=unknown) == Demand(1, 0.0)
    assert needs(a_window(batch=200, waiting=100), capacity=unknown) == Demand(2, 1.5)
    assert needs(a_window(batch=200, kv=0.9), capacity=unknown).saturation_ratio == pytest.approx(0.9)


def test_ranks_share_what_waits() -> None:
    """Their batch size is a mean, and their waiting requests are a sum."""
    assert needs(a_window(batch=100, waiting=140), capacity=Capacity(100, ranks=2)) == Demand(3, 1.7)


def test_what_arrives_between_two_steps_is_no_queue() -> None:
    assert needs(a_window(batch=200, waiting=0.5), capacity=Capacity(None)) == Demand(1, 0.0)


def test_a_token_budget_limits_an_engine_that_does_not_say_its_largest_batch() -> None:
    budget = Capacity(None, max_num_batched_tokens=200)
    assert needs(a_window(batch=50), capacity=budget).saturation_ratio == 0.25
    assert needs(a_window(batch=50), capacity=budget, table=Schedule.constant(3)).saturation_ratio == 1.0


@pytest.mark.timeout(120)  # for a walk over every batch, which would take minutes
def test_a_batch_limit_of_a_billion_is_no_walk_over_a_billion() -> None:
    assert Capacity(10**9, max_num_batched_tokens=8).at(Schedule.parse("8:3,*:0")) == 2


@given(st.floats(0.1, 500), st.floats(0, 500), st.floats(0, 1), st.integers(1, 20))
def test_more_waiting_never_needs_fewer(batch: float, waiting: float, kv: float, replicas: int) -> None:
    less = needs(a_window(batch=batch, waiting=waiting, kv=kv), replicas=replicas)
    more = needs(a_window(batch=batch, waiting=waiting + 1, kv=kv), replicas=replicas)
    assert more.required_replicas >= less.required_replicas >= 1
    assert more.saturation_ratio >= less.saturation_ratio


def test_autoscalers_read_it_by_namespace_and_model() -> None:
    registry = CollectorRegistry()
    DemandMetrics(registry).show("prod", "qwen3", required_replicas=3, saturation_ratio=2.4, now=0)
    labels = {"namespace": "prod", "model": "qwen3"}
    assert registry.get_sample_value("outrider_required_replicas", labels) == 3
    assert registry.get_sample_value("outrider_saturation_ratio", labels) == pytest.approx(2.4)


def test_a_value_that_nobody_renews_disappears() -> None:
    registry = CollectorRegistry()
    metrics = DemandMetrics(registry)
    metrics.show("prod", "old", required_replicas=3, saturation_ratio=2.4, now=0)
    metrics.show("prod", "new", required_replicas=1, saturation_ratio=0.1, now=50)
    metrics.forget_stale(now=61)
    value = registry.get_sample_value
    assert value("outrider_required_replicas", {"namespace": "prod", "model": "old"}) is None
    assert value("outrider_saturation_ratio", {"namespace": "prod", "model": "old"}) is None
    assert value("outrider_required_replicas", {"namespace": "prod", "model": "new"}) == 1


def test_a_batch_beyond_what_the_pause_allows_needs_more_replicas() -> None:
    found = needs(a_window(batch=50), latency=LatencyDemand(largest_batch=20))
    assert found == Demand(3, 0.5)


def test_waiting_requests_will_need_a_place_within_the_pause_too() -> None:
    found = needs(a_window(batch=40, waiting=21), latency=LatencyDemand(largest_batch=20))
    assert found.required_replicas == 4


def test_a_batch_that_the_pause_allows_needs_no_more() -> None:
    assert needs(a_window(batch=50), latency=LatencyDemand(largest_batch=50)).required_replicas == 1


def test_replicas_do_not_shorten_a_pause_that_one_request_breaks() -> None:
    assert needs(a_window(batch=50), latency=LatencyDemand(largest_batch=0.0)).required_replicas == 1


def test_a_late_first_token_asks_for_one_replica_more_than_there_are() -> None:
    found = needs(*[a_window(batch=50)] * 3, replicas=3, latency=LatencyDemand(first_token_late=True))
    assert found.required_replicas == 4
