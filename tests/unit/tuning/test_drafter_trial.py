"""The trial of a new drafter: how long it is compared, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from random import Random

import pytest

from outrider.api.launch import DrafterTrial, LaunchOrder, RelaunchPolicy, TrialStage
from outrider.api.reasons import LaunchReason
from outrider.api.tuning import Canary
from outrider.tuning.estimate.contrast import Contrast
from outrider.tuning.relaunch.inputs import RelaunchInput, Verdict
from outrider.tuning.relaunch.judge import judge
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import POLICY
from tests.unit.tuning.launching import HOUR, KEEP

TICK = 10.0
NUMBERS = POLICY.relaunch


@dataclass
class Replicas:
    """Two replicas with the drafter before, and a canary. gain: log goodput of the new one over the other."""

    gain: Callable[[float], float] | None
    serves: Callable[[float], bool] = lambda _: True
    trial: DrafterTrial | None = field(default_factory=lambda: DrafterTrial("s2", drafter="hf://org/new"))
    replicas: int = 2
    now: float = 0.0
    state: RelaunchState = field(default_factory=RelaunchState)

    def tick(self) -> Verdict:
        canary = self.trial is not None and self.serves(self.now)
        both = canary and self.gain is not None
        inputs = RelaunchInput(
            RelaunchPolicy(canary=Canary.ALLOW),
            KEEP,
            Schedule.constant(3),
            replicas=self.replicas,
            ready=self.replicas - canary,
            as_ordered=self.replicas - canary,
            canaries=int(canary),
            now=self.now,
            contrast=Contrast(self.gain(self.now), TICK, revisions="a b") if both and self.gain else None,
            trial=self.trial,
        )
        verdict = judge(inputs, self.state, POLICY)
        self.state = verdict.state
        self.now += TICK
        return verdict

    def until_judged(self) -> Verdict:
        verdict = self.tick()
        while self.state.order.drafter is None:
            assert self.now < 24 * HOUR
            verdict = self.tick()
        return verdict


def steady(gain: float, noise: float = 0.02) -> Callable[[float], float]:
    random = Random(1)
    return lambda _: random.gauss(log(1 + gain), noise)


def test_a_trial_says_that_it_starts_and_runs_and_starts_no_other_canary() -> None:
    model = Replicas(steady(0.0), serves=lambda at: at >= 60.0)
    assert "starts with the new drafter hf://org/new" in model.tick().sentence
    model.now = 60.0
    found = model.tick()
    assert (found.reason, model.state.order) == (LaunchReason.CANARY_RUNNING, LaunchOrder())
    assert "runs with the new drafter" in found.sentence


@pytest.mark.parametrize("gain", [0.3, 0.05, 0.0, -0.01])
def test_a_drafter_that_is_not_clearly_slower_is_promoted_after_a_quarter_of_an_hour(gain: float) -> None:
    model = Replicas(steady(gain))
    found = model.until_judged()
    assert model.state.order.drafter is not None
    assert model.state.order.drafter.promoted
    assert model.now == pytest.approx(NUMBERS.canary_seconds, abs=2 * TICK)
    measured = model.state.drafter
    assert measured is not None
    assert measured.low < log(1 + gain) < measured.high
    assert "it gains" in found.sentence


def test_a_slower_drafter_is_returned_with_its_interval() -> None:
    model = Replicas(steady(-0.2))
    found = model.until_judged()
    assert found.reason is LaunchReason.DRAFTER_KEPT
    assert model.state.order.drafter is not None
    assert not model.state.order.drafter.promoted
    assert "95 %" in model.state.order.drafter.why
    assert "tuning.canary: Never" in model.state.order.drafter.why


def test_with_no_traffic_it_is_promoted_after_an_hour_without_a_result() -> None:
    model = Replicas(None)
    found = model.until_judged()
    assert "without a comparison" in found.sentence
    assert model.now == pytest.approx(NUMBERS.trial_seconds, abs=2 * TICK)
    assert model.state.drafter is None


def test_a_canary_that_stops_serving_is_not_promoted() -> None:
    model = Replicas(steady(0.2), serves=lambda at: at < 300.0)
    model.until_judged()
    assert model.state.order.drafter is not None
    assert not model.state.order.drafter.promoted
    assert "does not stay ready" in model.state.order.drafter.why


def test_a_result_is_ordered_once_and_dropped_when_it_is_carried_out() -> None:
    model = Replicas(steady(-0.2))
    model.until_judged()
    ordered = model.state.order
    model.tick()
    assert model.state.order == ordered
    model.trial = DrafterTrial("s2", TrialStage.RETURNED, "hf://org/new", "It is slower.")
    found = model.tick()
    assert (model.state.order, found.reason) == (LaunchOrder(), LaunchReason.DRAFTER_KEPT)
    assert found.sentence == "It is slower."
    model.trial = None
    model.tick()
    assert model.state.trial == ""
    assert model.state.drafter is not None


def test_the_same_drafter_after_another_one_is_compared_anew() -> None:
    model = Replicas(steady(-0.2))
    model.until_judged()
    model.trial = None
    model.tick()
    model.trial, model.gain = DrafterTrial("s2"), steady(0.1)
    begun = model.now
    model.until_judged()
    assert model.state.order.drafter is not None
    assert model.state.order.drafter.promoted
    assert model.now - begun == pytest.approx(NUMBERS.canary_seconds, abs=2 * TICK)


def test_a_promoted_drafter_is_reported_until_the_rollout_ends() -> None:
    model = Replicas(steady(0.1))
    model.until_judged()
    model.trial = DrafterTrial("s2", TrialStage.PROMOTED, "hf://org/new")
    found = model.tick()
    assert found.reason is LaunchReason.RELAUNCHING
    assert "it gains" in found.sentence


def test_one_replica_is_not_compared_and_says_so() -> None:
    model = Replicas(None, trial=None, replicas=1)
    found = model.tick()
    assert found.reason is LaunchReason.NOT_COMPARED
    assert "spec.replicas: 2" in found.sentence
