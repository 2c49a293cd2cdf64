"""The rules that Outrider is compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.simulate.engines.windows import Stretch, window_of
from outrider.simulate.rivals.bandit import Bandit
from outrider.simulate.rivals.baselines import RETRY_SECONDS, AcceptanceThresholds, AcceptedLengthAverage
from outrider.simulate.rivals.contenders import Brief, make
from outrider.simulate.rivals.model_only import ModelOnly
from outrider.simulate.rivals.tuners import Law, hand_table
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy

KS = (0, 1, 2, 3, 5, 8)
LAW = Policy(candidates=KS, max_num_seqs=64)


def a_window(
    *, k: int, accepted: float = 0.0, batch: float = 8.0, goodput: float = 500.0, seconds: float = 5.0
) -> Window:
    """accepted: mean tokens per draft."""
    steps = goodput * seconds / (batch * (1 + accepted))
    shares = tuple(steps * batch * accepted / k for _ in range(k))
    stretch = Stretch(batch, k, seconds, steps, goodput * seconds, shares)
    return window_of("default/a", 0.0, seconds, [stretch], LAW.bins)


def test_the_hand_table_is_that_of_the_guides_with_allowed_k() -> None:
    assert str(hand_table(KS)) == "8:5,32:3,*:0"
    assert str(hand_table((1, 4))) == "8:4,*:1"
    assert str(hand_table((0, 7))) == "*:0"


@pytest.mark.parametrize(("rate", "k"), [(0.85, 8), (0.7, 5), (0.55, 3), (0.4, 0)])
def test_acceptance_thresholds_follow_the_rate_up_to_32_requests(rate: float, k: int) -> None:
    action = AcceptanceThresholds(LAW).tick([a_window(k=3, accepted=3 * rate)], 5.0)
    assert action.schedule.k_at(8) == k
    assert action.schedule.k_at(33) == 0


def test_a_drafter_that_was_switched_off_gets_another_chance() -> None:
    rule = AcceptanceThresholds(LAW)
    rule.tick([a_window(k=3, accepted=0.9)], 5.0)
    assert rule.tick([a_window(k=0)], 10.0).schedule.k_at(8) == 0
    assert rule.tick([a_window(k=0)], 6.0 + RETRY_SECONDS).schedule.k_at(8) == 3


def test_the_average_goes_one_candidate_up_when_nearly_all_is_accepted() -> None:
    rule = AcceptedLengthAverage(LAW)
    assert rule.begin().schedule.k_at(1) == 3
    assert rule.tick([a_window(k=3, accepted=2.9)], 5.0).schedule.k_at(1) == 5


def test_the_average_goes_one_candidate_down_when_the_k_before_would_do() -> None:
    assert AcceptedLengthAverage(LAW).tick([a_window(k=3, accepted=1.1)], 5.0).schedule.k_at(1) == 2


def test_the_average_stays_in_between_and_without_drafts() -> None:
    rule = AcceptedLengthAverage(LAW)
    assert rule.tick([a_window(k=3, accepted=2.0)], 5.0).schedule.k_at(1) == 3
    assert rule.tick([], 10.0).schedule.k_at(1) == 3


def test_the_model_moves_to_less_when_nothing_is_accepted() -> None:
    rule = ModelOnly(LAW)
    for tick in range(20):
        action = rule.tick([a_window(k=5, accepted=0.05)], 5.0 * tick)
    assert action.schedule.k_at(8) == 0


def test_the_bandit_halves_until_one_is_left() -> None:
    goodput = {0: 300.0, 1: 400.0, 2: 350.0, 3: 500.0, 5: 200.0, 8: 100.0}
    rule, stretches = Bandit(LAW), [Stretch(8.0, 5, 5.0, 10.0, 1000.0, ())]
    asked: list[list[int]] = []
    for tick in range(8):
        action = rule.tick([window_of("default/a", 0.0, 5.0, stretches, LAW.bins)], 5.0 * tick)
        slices = () if action.probe is None else action.probe.slices
        if len(slices) > 1:
            asked.append([s.num_speculative_tokens for s in slices])
        stretches = [
            Stretch(
                8.0,
                s.num_speculative_tokens,
                s.seconds,
                10.0,
                goodput[s.num_speculative_tokens] * s.seconds,
                (),
            )
            for s in slices
        ] or [Stretch(8.0, 3, 5.0, 10.0, 2500.0, ())]
    assert [len(ks) for ks in asked] == [6, 3, 2]
    assert action.schedule.k_at(8) == 3


def test_without_cells_the_bandit_tries_through_the_table() -> None:
    rule = Bandit(LAW, stock=True)
    action = rule.tick([replace(a_window(k=5, accepted=2.0), cells=())], 5.0)
    assert action.probe is None
    assert action.on_trial


def test_the_law_on_stock_metrics_never_asks_for_a_probe() -> None:
    law = Law(LAW, hand_table(KS), stock=True)
    for tick in range(1, 12):
        action = law.tick(
            [replace(a_window(k=5, accepted=2.0), started_at=5.0 * tick, ended_at=5.0 * tick + 5)],
            5.0 * tick + 5,
        )
        assert action.probe is None
    assert all(decision.state is not None for decision in law.decisions)


def test_a_policy_by_name_is_a_fresh_one() -> None:
    brief = Brief(LAW, {0.0: 1})
    assert make("bandit", brief) is not make("bandit", brief)
