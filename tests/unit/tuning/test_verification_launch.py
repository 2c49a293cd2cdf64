"""`verification: Auto`: when the other verification is measured, and when engines are relaunched with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log
from random import Random

import pytest

from outrider.api.launch import Launch, LaunchOrder, RelaunchPolicy
from outrider.api.reasons import LaunchReason
from outrider.tuning.estimate.contrast import Contrast, Contrasts, contrast
from outrider.tuning.observe.readings import Reading
from outrider.tuning.relaunch.inputs import RelaunchInput, Verdict
from outrider.tuning.relaunch.judge import judge
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import POLICY
from tests.unit.tuning.launching import AUTO, HOUR, KEEP, TICK

ADAPTIVE, FIXED = Launch(adaptive=True), Launch()
DAY = 24 * HOUR
REFUSAL = "FLASH_ATTN_2 cannot verify adaptively."


@dataclass
class Replicas:
    """Pods that follow every order within one tick.

    gain: log goodput with adaptive verification over fixed, by unix seconds.
    """

    gain: Callable[[float], float]
    limits: RelaunchPolicy = AUTO
    replicas: int = 2
    now: float = 0.0
    refuses: bool = False
    stuck: bool = False
    revisions: str = "a b"
    state: RelaunchState = field(default_factory=RelaunchState)
    verdicts: list[Verdict] = field(default_factory=list)
    relaunches: list[tuple[float, str]] = field(default_factory=list)
    canary_seconds: float = 0.0

    def tick(self) -> Verdict:
        before = self.state.order
        tries = before.launch.adaptive or (before.canary is not None and before.canary.adaptive)
        canary = before.canary is not None and not (self.refuses and before.canary.adaptive)
        ready = self.replicas - (before.canary is not None)
        inputs = RelaunchInput(
            self.limits,
            KEEP,
            Schedule.constant(3),
            replicas=self.replicas,
            ready=ready,
            as_ordered=0 if self.stuck and before.launch.adaptive else ready,
            canaries=int(canary),
            now=self.now,
            contrast=Contrast(self.gain(self.now), TICK, revisions=self.revisions) if canary else None,
            adaptive_refusal=REFUSAL if self.refuses and tries else "",
        )
        verdict = judge(inputs, self.state, POLICY)
        self.state = verdict.state
        if self.state.order.launch != before.launch:
            self.relaunches.append((self.now, str(self.state.order.launch)))
        self.canary_seconds += TICK if self.state.order.canary is not None else 0.0
        self.verdicts.append(verdict)
        self.now += TICK
        return verdict

    def spend(self, seconds: float) -> Verdict:
        until = self.now + seconds
        while self.now < until:
            self.tick()
        return self.verdicts[-1]

    def reasons(self) -> set[LaunchReason]:
        return {verdict.reason for verdict in self.verdicts if verdict.reason is not None}


def steady(gain: float, noise: float = 0.02) -> Callable[[float], float]:
    random = Random(1)
    return lambda _: random.gauss(log(1 + gain), noise)


def test_the_first_canary_verifies_adaptively_for_a_quarter_of_an_hour() -> None:
    model = Replicas(steady(0.0))
    model.tick()
    assert model.state.order == LaunchOrder(canary=ADAPTIVE)
    model.spend(HOUR)
    assert model.canary_seconds == pytest.approx(POLICY.relaunch.canary_seconds, abs=2 * TICK)


def test_a_better_verification_is_launched_once_and_stays() -> None:
    model = Replicas(steady(0.2))
    model.spend(7 * DAY)
    assert [launch for _, launch in model.relaunches] == ["adaptive"]
    gain = model.state.verification
    assert gain is not None
    assert gain.low < log(1.2) < gain.high
    assert "Outrider keeps adaptive verification" in model.verdicts[-1].sentence


@pytest.mark.parametrize("gain", [0.0, 0.01, -0.01, -0.2], ids=["equal", "better by 1 %", "1 %", "20 %"])
def test_where_adaptive_verification_is_not_clearly_better_replicas_are_never_relaunched(gain: float) -> None:
    model = Replicas(steady(gain))
    model.spend(7 * DAY)
    assert model.relaunches == []
    most = 7 * (POLICY.relaunch.canary_seconds + 2 * TICK)
    assert model.canary_seconds <= most


def test_gains_that_change_their_sign_within_a_comparison_change_nothing() -> None:
    random = Random(3)
    model = Replicas(lambda at: (0.15 if int(at / 120.0) % 2 else -0.15) + random.gauss(0.0, 0.05))
    model.spend(14 * DAY)
    assert model.relaunches == []


def test_traffic_that_changes_every_day_costs_one_relaunch_a_day_at_most() -> None:
    model = Replicas(lambda at: 0.2 if int(at / DAY) % 2 == 0 else -0.2)
    model.spend(10 * DAY)
    times = [at for at, _ in model.relaunches]
    assert all(later - earlier >= DAY - HOUR for earlier, later in pairwise(times))


def test_fixed_verification_returns_once_it_is_better() -> None:
    model = Replicas(lambda at: 0.2 if at < DAY / 2 else -0.1)
    model.spend(2 * DAY)
    assert [launch for _, launch in model.relaunches] == ["adaptive", ""]
    assert model.state.order == LaunchOrder()


def test_an_engine_that_refuses_ends_the_canary_at_once_and_is_asked_again_after_a_day() -> None:
    model = Replicas(steady(0.2), refuses=True)
    model.spend(3 * TICK)
    last = model.verdicts[-1]
    assert (model.state.order, last.reason) == (LaunchOrder(), LaunchReason.ADAPTIVE_UNAVAILABLE)
    assert REFUSAL.rstrip(".") in last.sentence
    model.spend(23 * HOUR)
    assert model.relaunches == []
    assert model.canary_seconds <= 2 * TICK
    assert model.verdicts[-1].reason is LaunchReason.ADAPTIVE_UNAVAILABLE
    model.refuses = False
    model.spend(3 * HOUR)
    assert [launch for _, launch in model.relaunches] == ["adaptive"]


def test_a_replica_that_refuses_returns_all_to_fixed_verification() -> None:
    """Its node has another GPU than the canary's."""
    model = Replicas(steady(0.2))
    model.spend(HOUR)
    assert model.state.order.launch == ADAPTIVE
    model.refuses = True
    model.spend(HOUR)
    assert model.state.order == LaunchOrder()
    assert model.verdicts[-1].reason is LaunchReason.ADAPTIVE_UNAVAILABLE


def test_a_relaunch_that_does_not_end_is_rolled_back_and_not_repeated_for_a_while() -> None:
    model = Replicas(steady(0.2), stuck=True)
    model.spend(6 * HOUR)
    assert [launch for _, launch in model.relaunches][:2] == ["adaptive", ""]
    assert LaunchReason.RELAUNCH_ROLLED_BACK in model.reasons()
    assert len(model.relaunches) <= 6


def test_one_replica_is_not_compared() -> None:
    model = Replicas(steady(0.2), replicas=1)
    model.spend(DAY)
    assert model.reasons() == {LaunchReason.NOT_COMPARED}
    assert model.canary_seconds == 0


def test_a_canary_that_does_not_become_ready_ends_with_the_deadline() -> None:
    model = Replicas(steady(0.2))
    model.tick()
    model.state = replace(model.state, canary_at=-AUTO.deadline_seconds)
    model.tick()
    assert model.state.order.canary is None or model.state.canary_ready_at is not None


def test_a_comparison_of_a_spec_that_changed_begins_anew() -> None:
    model = Replicas(lambda _: 0.5)
    model.spend(600.0)
    assert model.state.contrasts.blocks
    model.revisions, model.gain = "c d", lambda _: 0.0
    model.tick()
    assert [gain for _, gain in model.state.contrasts.blocks] == [0.0]


def test_a_new_process_continues_the_canary_that_is_stored() -> None:
    model = Replicas(steady(0.2))
    model.spend(600.0)
    model.state = RelaunchState().adopting(model.state.order, model.now)
    model.spend(HOUR)
    assert [launch for _, launch in model.relaunches] == ["adaptive"]


def test_with_another_value_of_the_field_the_canary_ends() -> None:
    model = Replicas(steady(0.2))
    model.spend(300.0)
    model.limits = RelaunchPolicy()
    model.tick()
    assert model.state.order.canary is None


def a_reading(*, batch: float, goodput: float, seconds: float = 10.0) -> Reading:
    steps = 100.0
    tokens = goodput * seconds
    return Reading("a", 0, 3, steps, seconds, steps * batch, tokens, 0.0, None, (), (), 0.0)


def test_a_gain_that_shows_in_a_smaller_batch_is_found() -> None:
    """The same arrivals, so tokens per second are equal. Goodput grows with the root of the batch."""
    slow, fast = a_reading(batch=16.0, goodput=400.0), a_reading(batch=9.0, goodput=400.0)
    curve = {16.0: 40.0, 9.0: 30.0}
    found = contrast([slow], [fast], curve, between_pods=0.0)
    assert found.gain == pytest.approx(log(40.0 / 30.0))
    assert found.reversed().gain == -found.gain


def test_the_level_of_the_curve_does_not_matter() -> None:
    one, other = a_reading(batch=16.0, goodput=400.0), a_reading(batch=8.0, goodput=300.0)
    found = [
        contrast([one], [other], {16.0: 4.0 * scale, 8.0: 3.0 * scale}, between_pods=0.0).gain
        for scale in (1.0, 10.0)
    ]
    assert found == pytest.approx([0.0, 0.0])


def test_an_interval_is_never_narrower_than_the_difference_between_pods() -> None:
    found = Contrasts()
    for minute in range(12):
        found = found.after(Contrast(0.03, 60.0, between_pods=0.02**2), 60.0 * minute)
    interval = found.interval()
    assert interval is not None
    assert interval.high - interval.low >= 2 * 1.9 * 0.02


def test_a_few_minutes_give_no_interval() -> None:
    assert Contrasts().after(Contrast(0.1, 60.0), 0.0).interval() is None
