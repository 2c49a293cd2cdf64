"""When engines are launched otherwise: without a drafter, with another table, one as a canary."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from outrider.api.launch import Launch, LaunchOrder, RelaunchPolicy
from outrider.api.reasons import LaunchReason
from outrider.api.tuning import Actuation, Canary
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import POLICY
from tests.unit.tuning.launching import (
    ALLOW,
    CANARY,
    HOUR,
    KEEP,
    OFF,
    ON,
    RECOMMEND,
    TICK,
    Plant,
    a_decision,
    an_outlook,
)

BARE = Launch(drafter=False)
ROLLOUT = RelaunchPolicy(actuation=Actuation.ROLLOUT)


def test_what_suits_stays() -> None:
    plant = Plant(ALLOW)
    assert plant.spend(HOUR, KEEP).reason is LaunchReason.NO_BETTER_LAUNCH
    assert plant.relaunches == []


def test_a_recommendation_changes_nothing_and_says_what_to_set() -> None:
    plant = Plant(RECOMMEND)
    verdict = plant.spend(24 * HOUR, OFF)
    assert verdict.reason is LaunchReason.DRAFTER_IDLE
    assert "structuralOff" in verdict.sentence
    assert plant.relaunches == []


def test_where_it_is_never_allowed_nothing_is_said_of_an_idle_drafter() -> None:
    assert Plant(CANARY).tick(OFF).reason is not LaunchReason.DRAFTER_IDLE


def test_a_drafter_that_lost_for_long_goes_at_once() -> None:
    """The decision already counts recent time."""
    plant = Plant(ALLOW)
    first = plant.tick(OFF)
    assert first.reason is LaunchReason.RELAUNCHING
    assert first.sentence.startswith("In the last 30 min a launch without a drafter would have been 11 % ±")
    assert [launch for _, launch in plant.relaunches] == ["no-drafter"]


def test_a_short_interval_is_judged_as_quickly() -> None:
    short, usual = POLICY.paced(replace(ALLOW, interval_seconds=60.0)), POLICY.paced(ALLOW)
    assert short == usual.changed(ledger_seconds=60.0, relaunch_dwell_seconds=15.0)
    assert usual == replace(POLICY, removes_drafter=True)


def test_an_interval_between_relaunches_that_are_never_allowed_changes_nothing() -> None:
    assert POLICY.paced(RelaunchPolicy(interval_seconds=60.0)) == POLICY


def test_a_doubt_about_a_table_starts_the_time_anew() -> None:
    plant = Plant(ROLLOUT)
    better = a_decision(an_outlook(rates={1: 120.0}), table=Schedule.constant(1))
    for _ in range(10):
        plant.spend(POLICY.relaunch.relaunch_dwell_seconds - TICK, better)
        plant.tick(KEEP)
    assert plant.relaunches == []
    plant.spend(2 * POLICY.relaunch.relaunch_dwell_seconds, better)
    assert [launch for _, launch in plant.relaunches] == ["*:1"]


def test_the_drafter_returns_when_it_would_pay_but_not_before_the_interval() -> None:
    plant = Plant(ALLOW)
    plant.spend(HOUR / 2, OFF)
    assert plant.tick(ON).reason is LaunchReason.RELAUNCH_POSTPONED
    plant.spend(HOUR, ON)
    (off, _), (on, launch) = plant.relaunches
    assert launch == ""
    assert on - off >= HOUR


def test_a_drafter_that_returns_in_vain_waits_longer_each_time() -> None:
    plant = Plant(ALLOW)
    while plant.now < 14 * 24 * HOUR:
        bare = not plant.state.order.launch.drafter
        plant.tick(ON if bare else OFF)
    returns = [at for at, launch in plant.relaunches if launch == ""]
    away = [
        b - a for (a, launch), (b, _) in zip(plant.relaunches, plant.relaunches[1:], strict=False) if launch
    ]
    assert away == sorted(away)
    assert away[0] < 1.2 * HOUR
    assert max(away) <= POLICY.relaunch.longest_back_off_seconds + 2 * TICK
    assert len(returns) <= 20


def test_a_relaunch_that_does_not_end_is_taken_back_and_waits() -> None:
    plant = Plant(ALLOW, stuck=True)
    plant.until_relaunched(OFF)
    verdict = plant.spend(ALLOW.deadline_seconds + TICK, None)
    assert verdict.reason is LaunchReason.RELAUNCH_ROLLED_BACK
    assert "0/1 pods" in verdict.sentence
    assert plant.state.order.launch == Launch()
    plant.stuck = False
    told = plant.spend(HOUR, OFF)
    assert told.reason is LaunchReason.RELAUNCH_POSTPONED
    assert len(plant.relaunches) == 2


def test_going_back_is_not_given_up_however_long_it_takes() -> None:
    plant = Plant(ROLLOUT, stuck=True)
    plant.until_relaunched(better())
    plant.running = Launch(schedule=Schedule.constant(0))
    plant.spend(12 * HOUR, None)
    assert [launch for _, launch in plant.relaunches] == [str(TABLE), ""]


TABLE = Schedule.parse("12:1,*:3")


def better(measured: dict[int, float] | None = None, *, rate: float = 120.0, error: float = 0.01) -> Decision:
    return a_decision(an_outlook(rates={1: rate}, error=error, measured=measured), table=TABLE)


def test_a_better_table_becomes_a_launch() -> None:
    plant = Plant(ROLLOUT)
    plant.spend(2 * POLICY.relaunch.relaunch_dwell_seconds, better())
    assert [launch for _, launch in plant.relaunches] == [str(TABLE)]
    started = next(v for v in plant.verdicts if v.expected_gain is not None)
    assert started.expected_gain == pytest.approx(0.2)


@pytest.mark.parametrize(
    "decision",
    [better(rate=104.0), better(rate=120.0, error=0.9), better({1: 0.0}, rate=120.0, error=0.3)],
    ids=["small", "a wild guess", "measured and doubtful"],
)
def test_a_small_or_doubtful_gain_is_not_worth_a_restart(decision: Decision) -> None:
    plant = Plant(ROLLOUT)
    plant.spend(HOUR, decision)
    assert plant.relaunches == []


def test_a_live_model_is_not_restarted_for_a_table() -> None:
    plant = Plant(ALLOW)
    plant.spend(HOUR, better())
    assert plant.relaunches == []


def test_the_gain_of_a_relaunch_is_told_once_it_is_measured() -> None:
    plant = Plant(ROLLOUT)
    plant.spend(2 * POLICY.relaunch.relaunch_dwell_seconds, better({3: 0.0}))
    measured = better({3: 0.0, 1: plant.now + TICK}, rate=115.0)
    plant.spend(10 * TICK, measured)
    told = [v.measured_gain for v in plant.verdicts if v.measured_gain is not None]
    assert told == [pytest.approx(0.15)]


def test_a_table_that_proves_slower_goes_back_at_once_and_is_not_tried_again() -> None:
    plant = Plant(ROLLOUT)
    plant.spend(2 * POLICY.relaunch.relaunch_dwell_seconds, better({3: 0.0}))
    slower = a_decision(
        an_outlook(rates={1: 80.0}, measured={3: 0.0, 1: plant.now + TICK}), table=Schedule.constant(3)
    )
    verdict = plant.tick(slower)
    assert verdict.reason is LaunchReason.RELAUNCH_ROLLED_BACK
    assert plant.relaunches[-1] == (plant.now - TICK, "")
    plant.spend(23 * HOUR, better({3: 0.0}))
    assert len(plant.relaunches) == 2


def a_canary_plant() -> Plant:
    return Plant(CANARY, replicas=2)


def test_a_canary_runs_until_the_tax_is_known() -> None:
    plant = a_canary_plant()
    assert plant.tick(KEEP).reason is LaunchReason.CANARY_RUNNING
    assert plant.state.order == LaunchOrder(canary=Launch(drafter=False))
    plant.tick(KEEP)
    known = a_decision(an_outlook(overhead=IdleDrafterOverhead(0.1, 0.015**2, measured_at=plant.now)))
    plant.tick(known)
    assert plant.state.order == LaunchOrder()
    plant.spend(12 * HOUR, known)
    assert not any(v.state.order.canary for v in plant.verdicts[3:])


def test_a_canary_that_learns_nothing_ends_all_the_same_and_rests_for_a_day() -> None:
    plant = a_canary_plant()
    plant.spend(23 * HOUR, KEEP)
    running = sum(v.state.order.canary is not None for v in plant.verdicts) * TICK
    assert running <= POLICY.relaunch.canary_seconds + 3 * TICK
    assert "no result" in next(v for v in reversed(plant.verdicts) if "canary ends" in v.sentence).sentence


def test_a_canary_is_said_to_run_once_it_serves() -> None:
    plant = a_canary_plant()
    plant.canary_serves = False
    assert "starts" in plant.spend(2 * TICK, KEEP).sentence
    plant.canary_serves = True
    assert "runs" in plant.tick(KEEP).sentence


@pytest.mark.parametrize(
    "plant",
    [Plant(CANARY, replicas=1), Plant(ALLOW, replicas=2)],
    ids=["one replica", "not allowed"],
)
def test_no_canary_without_leave_or_company(plant: Plant) -> None:
    plant.spend(HOUR, KEEP)
    assert not any(v.state.order.canary for v in plant.verdicts)


def test_no_canary_without_traffic() -> None:
    plant = a_canary_plant()
    plant.spend(HOUR, None)
    assert not any(v.state.order.canary for v in plant.verdicts)


def test_a_canary_and_a_relaunch_never_overlap() -> None:
    plant = Plant(replace(ALLOW, canary=Canary.ALLOW), replicas=2)
    plant.tick(KEEP)
    plant.spend(6 * HOUR, OFF)
    for verdict in plant.verdicts:
        assert not (verdict.state.order.canary and verdict.state.under_way)
    assert plant.relaunches


def test_an_order_that_another_process_gave_is_not_given_again() -> None:
    plant = Plant(ALLOW)
    plant.state = RelaunchState().adopting(LaunchOrder(BARE), now=0.0)
    plant.spend(HOUR - TICK, ON)
    assert plant.relaunches == []


def test_the_memory_of_relaunches_survives_being_stored() -> None:
    plant = Plant(ALLOW)
    plant.stuck = True
    plant.until_relaunched(OFF)
    plant.spend(ALLOW.deadline_seconds + TICK, None)
    stored = TypeAdapter(RelaunchState)
    assert stored.validate_json(stored.dump_json(plant.state)) == plant.state


SIGHTS = st.lists(
    st.tuples(st.sampled_from([OFF, ON, KEEP, None]), st.integers(1, 90), st.booleans()),
    min_size=10,
    max_size=40,
)


@settings(max_examples=60)
@given(SIGHTS)
def test_two_relaunches_are_never_within_the_interval_except_going_back(
    sights: list[tuple[Decision | None, int, bool]],
) -> None:
    plant = Plant(ALLOW)
    for decision, ticks, stuck in sights:
        plant.stuck = stuck
        for _ in range(ticks):
            plant.tick(decision)
    chosen = {v.state.started_at for v in plant.verdicts if v.reason is LaunchReason.RELAUNCHING}
    pairs = [(before, at) for (before, _), (at, _) in pairwise(plant.relaunches) if at in chosen]
    assume(pairs)
    assert all(at - before >= HOUR for before, at in pairs)
