"""The rules that Outrider is compared with."""

from __future__ import annotations

import pytest

from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider_lab.engines.windows import Stretch, window_of
from outrider_lab.rivals.adaptive_steps import AdaptiveSteps
from outrider_lab.rivals.bandit import Bandit
from outrider_lab.rivals.baselines import (
    RETRY_SECONDS,
    AcceptanceThresholds,
    AcceptedLengthAverage,
    OffBelowRate,
)
from outrider_lab.rivals.model_only import ModelOnly
from outrider_lab.rivals.profiled import Goodput, OfflineProfile, profiled_table
from outrider_lab.rivals.tuners import hand_table

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


@pytest.mark.parametrize(("rate", "k"), [(0.85, 8), (0.7, 5), (0.4, 3)])
def test_acceptance_thresholds_follow_the_rate_up_to_32_requests(rate: float, k: int) -> None:
    action = AcceptanceThresholds(LAW).tick([a_window(k=3, accepted=3 * rate)], 5.0)
    assert action.schedule.k_at(8) == k
    assert action.schedule.k_at(33) == 0


def test_a_drafter_that_was_switched_off_gets_another_chance() -> None:
    rule = OffBelowRate(LAW)
    rule.tick([a_window(k=3, accepted=0.9)], 5.0)
    assert rule.tick([a_window(k=0)], 10.0).schedule.k_at(8) == 0
    assert rule.tick([a_window(k=0)], 6.0 + RETRY_SECONDS).schedule.k_at(8) == 3


def test_sglang_begins_with_three_steps_and_none_above_64_requests() -> None:
    """One worked example of each slot: candidates 1, 3, 7; 0, 1, 3; 0, 1; 0 with 7 rounded down to 5."""
    assert str(AdaptiveSteps(LAW).begin().schedule) == "31:3,63:1,*:0"


def test_sglang_goes_up_above_half_a_token_less_than_k_and_down_three_quarters_below_the_k_before() -> None:
    """Of 1, 3, 5 at one stream: above 2.5 up to 5; at 0.25 or less down to 1; 2.0 stays at 3."""
    for accepted, k in ((2.6, 5), (2.0, 3), (0.25, 1)):
        rule = AdaptiveSteps(LAW)
        action = rule.tick([a_window(k=3, accepted=accepted, batch=1.0)], 5.0)
        assert action.schedule.k_at(1) == k


def test_sglang_looks_at_drafting_again_after_a_time_without() -> None:
    rule = AdaptiveSteps(LAW)
    assert rule.tick([a_window(k=1, accepted=0.1, batch=32.0)], 5.0).schedule.k_at(32) == 0
    assert rule.tick([a_window(k=0, batch=32.0)], 10.0).schedule.k_at(32) == 1


def a_profile() -> OfflineProfile:
    """T = 10 ms + 1 ms x K + 0.5 ms x B (1 + K), without an error; half of all drafted tokens accepted."""
    cells = (
        MapCell(batch, k, None, 0.010 + 0.001 * k + 0.0005 * batch * (1 + k), 0.01)
        for batch in (1, 8, 64)
        for k in KS
    )
    return OfflineProfile(
        StepTimeProfile(tuple(cells)), (0.5, 0.25, 0.125, 0.0625, 0.03, 0.015, 0.007, 0.003)
    )


def test_the_offline_profile_gives_each_batch_size_its_best_k() -> None:
    """(1 + sum of acceptance) / T: at one stream 2 drafts are best, 1.75 / 13.5 ms; at 64 none, 1 / 42 ms."""
    assert str(profiled_table(a_profile(), LAW)) == "7:2,63:1,*:0"


def test_turbospec_promises_the_tokens_of_one_rate_over_the_fitted_time() -> None:
    """(1 - 0.5^3) / (1 - 0.5) = 1.75 tokens in 13.5 ms."""
    rule = Goodput(LAW, a_profile())
    assert rule.promise(1.0, 2) == pytest.approx(1.75 / 0.0135)
    assert rule.begin().schedule.k_at(1) == 2


def test_the_average_goes_one_candidate_up_when_nearly_all_is_accepted() -> None:
    rule = AcceptedLengthAverage(LAW)
    assert rule.begin().schedule.k_at(1) == 3
    assert rule.tick([a_window(k=3, accepted=2.9)], 5.0).schedule.k_at(1) == 5


def test_the_average_goes_one_candidate_down_when_the_k_before_would_do() -> None:
    assert AcceptedLengthAverage(LAW).tick([a_window(k=3, accepted=1.1)], 5.0).schedule.k_at(1) == 2


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
