"""The rules that Outrider is compared with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider_lab.engines.step_rules import Verified
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
from outrider_lab.rivals.nightjar import Nightjar
from outrider_lab.rivals.profiled import Goodput, OfflineProfile, profiled_table
from outrider_lab.rivals.steered import FromOutside, Steered
from outrider_lab.rivals.throughput_aware import WINDOW, ThroughputAware, measured_costs
from outrider_lab.rivals.tuners import hand_table
from outrider_lab.rivals.ucb_specstop import UcbSpecStop

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
    """One worked example of each slot: candidates 1, 3, 5, 7; 0, 1, 3; 0, 1; 0 with 7 rounded down to 5."""
    assert str(AdaptiveSteps(LAW).schedule()) == "31:3,63:1,*:0"


@pytest.mark.parametrize(
    ("batch", "accepted", "k"), [(1.0, 2.6, 5), (1.0, 2.0, 3), (1.0, 0.24, 1), (8.0, 0.6, 3), (8.0, 0.49, 0)]
)
def test_sglang_goes_up_half_a_token_below_k_and_down_by_the_k_before(
    batch: float, accepted: float, k: int
) -> None:
    """At one stream, of 1, 3, 5: up above 2.5; down to 1 at 1 - 0.5 - 0.25 = 0.25. At 8, of 0, 1, 3: down to
    0 at 0.5."""
    rule = AdaptiveSteps(LAW)
    rule.verified(Verified(batch, 3, 100, 1.0, [100 * batch * accepted / 3] * 3))
    assert rule.choose(round(batch)) == k


def test_sglang_judges_at_every_fifth_step_after_the_first_ten() -> None:
    rule = AdaptiveSteps(LAW)
    ks = []
    for _ in range(16):
        rule.verified(Verified(1.0, 3, 1, 0.01, [0.0] * 3))
        ks.append(rule.choose(1))
    assert ks == [3] * 14 + [1] * 2


def test_sglang_looks_at_drafting_again_after_a_time_without() -> None:
    rule = AdaptiveSteps(LAW)
    rule.verified(Verified(32.0, 1, 100, 1.0, [320.0]))
    assert rule.choose(32) == 0
    rule.verified(Verified(32.0, 0, 5, 0.1, []))
    assert rule.choose(32) == 1


COSTS = {(batch, k): ms for batch in (1, 8) for k, ms in ((1, 10.0), (3, 13.0), (5, 16.0))}


def drafted_by(rule: ThroughputAware, *rates: float, steps: int = WINDOW) -> int:
    rule.verified(Verified(4.0, len(rates), steps, 1.0, [4.0 * steps * rate for rate in rates]))
    return rule.choose(4)


def test_throughput_aware_scores_expected_tokens_over_milliseconds() -> None:
    """Rates 0.8, 0.6, 0.4 at K=3: 1.8 / 10, 2.8 / 13. The fourth and fifth continue by the root of
    0.4 / 0.8: 0.4 x 0.7071 = 0.2828 and 0.2, so K=5 scores 3.2828 / 16. K=3 stays."""
    rule = ThroughputAware(LAW, COSTS)
    assert drafted_by(rule, 0.8, 0.6, 0.4) == 3
    scores = [rule.score(4, k) for k in (1, 3, 5)]
    assert scores == pytest.approx([1.8 / 10, 2.8 / 13, 3.28284 / 16], rel=1e-5)


@pytest.mark.parametrize(("rates", "k"), [((0.2, 0.1, 0.0), 1), ((0.2, 0.16, 0.09), 3)])
def test_throughput_aware_leaves_k_for_a_tenth_more_alone(rates: tuple[float, ...], k: int) -> None:
    """1.2 / 10 against 1.3 / 13 is a fifth more; against 1.45 / 13 it is 7.6 % more."""
    assert drafted_by(ThroughputAware(LAW, COSTS), *rates) == k


def test_throughput_aware_waits_for_a_full_window_of_every_position() -> None:
    rule = ThroughputAware(LAW, COSTS)
    assert drafted_by(rule, 0.2, 0.1, 0.0, steps=WINDOW - 1) == 3
    assert drafted_by(rule, 0.2, 0.1, 0.0, steps=5) == 1


def test_throughput_aware_forgets_positions_that_it_no_longer_drafts() -> None:
    """After K=1 with nothing beyond it known, both others repeat the first rate: K=5 scores 1 + 5 x 0.9."""
    rule = ThroughputAware(LAW, COSTS)
    assert drafted_by(rule, 0.2, 0.1, 0.0) == 1
    assert drafted_by(rule, 0.9) == 5


def test_throughput_aware_takes_the_time_of_the_next_larger_batch_at_the_smallest_context() -> None:
    cells = [
        MapCell(batch, 1, context, seconds, 0.01)
        for batch, context, seconds in ((1, 512, 0.01), (8, 512, 0.02), (8, 2048, 0.03))
    ]
    costs = measured_costs(StepTimeProfile(tuple(cells)))
    assert costs == {(1, 1): 10.0, (8, 1): 20.0}
    rule = ThroughputAware(Policy(candidates=(0, 1), max_num_seqs=8), costs)
    rule.verified(Verified(2.0, 1, WINDOW, 1.0, [WINDOW]))
    assert rule.score(2, 1) == pytest.approx(1.5 / 20)
    assert rule.score(9, 1) == pytest.approx(1.5 / 20)


def test_ucb_specstop_takes_the_least_lower_bound_of_milliseconds_per_token() -> None:
    """K=1: 10 ms and 1.5 tokens, K=3: 14 ms and 2.8. In the third round (10 - sqrt(ln 3)) / 1.5 = 5.968 and
    (14 - sqrt(ln 3)) / 2.8 = 4.626."""
    rule = UcbSpecStop(Policy(candidates=(0, 1, 3), max_num_seqs=8))
    assert rule.choose(2) == 1
    rule.verified(Verified(2.0, 1, 1, 0.010, [1.0]))
    assert rule.choose(2) == 3
    rule.verified(Verified(2.0, 3, 1, 0.014, [1.6, 1.2, 0.8]))
    assert rule.choose(2) == 3


def test_ucb_specstop_tries_an_arm_again_whose_bound_became_the_least() -> None:
    """After 400 steps of K=3 at 5 ms per token its bound is near 5. The one look at K=1 gave 5.2 ms, whose
    bound (5.2 x 2 - sqrt(ln 402)) / 2 = 3.98 is less."""
    rule = UcbSpecStop(Policy(candidates=(0, 1, 3), max_num_seqs=8))
    rule.verified(Verified(2.0, 1, 1, 0.0104, [2.0]))
    rule.verified(Verified(2.0, 3, 400, 400 * 0.010, [800.0, 0.0, 0.0]))
    assert rule.choose(2) == 1


def test_ucb_specstop_has_a_bandit_of_its_own_for_each_batch_bin() -> None:
    rule = UcbSpecStop(LAW)
    rule.verified(Verified(1.0, 1, 1, 0.01, [1.0]))
    assert rule.choose(1) == 2
    assert rule.choose(64) == 1


@pytest.mark.parametrize("make", [lambda law: ThroughputAware(law, COSTS), UcbSpecStop])
def test_rules_that_always_draft_refuse_an_engine_that_cannot(make: Callable[[Policy], object]) -> None:
    with pytest.raises(ValueError, match="needs a candidate above 0"):
        make(Policy(candidates=(0,), max_num_seqs=8))


def test_a_rule_of_the_engine_steers_a_schedule_where_engines_take_nothing_else() -> None:
    steered = Steered(lambda: UcbSpecStop(LAW))
    outside = FromOutside(steered)
    assert steered.launch.step_rule is not None
    assert outside.launch.step_rule is None
    assert steered.begin() == outside.begin()
    assert outside.tick([a_window(k=1, accepted=0.5)], 5.0).schedule.k_at(8) == 2


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


def nightjar_after(steps: int, seconds: dict[int, float]) -> tuple[Nightjar, list[int]]:
    """One that ran so many steps of 8 requests without accepted tokens, and the K of each."""
    rule, chosen = Nightjar(LAW), list[int]()
    for _ in range(steps):
        k = rule.choose(8)
        chosen.append(k)
        rule.verified(Verified(8, k, 1, seconds[k], (0.0,) * k))
    return rule, chosen


def test_nightjar_holds_a_k_for_a_bin_of_the_square_root_of_its_block() -> None:
    _, chosen = nightjar_after(2000, dict.fromkeys(KS, 0.01))
    # Blocks of 1, 2, 4, ... steps: the one of 1024 begins at step 1023 and has bins of 32 steps.
    first = chosen[1023 : 1023 + 32]
    assert len(set(first)) == 1


def test_nightjar_exploits_the_least_milliseconds_per_token_more_and_more() -> None:
    _, chosen = nightjar_after(8000, {k: 0.01 if k == 2 else 0.02 for k in KS})
    late = chosen[4095:]
    assert 0.7 < late.count(2) / len(late) < 1.0


def test_nightjar_learns_each_batch_size_on_its_own() -> None:
    rule, _ = nightjar_after(500, {k: 0.01 if k == 2 else 0.02 for k in KS})
    assert rule.schedule().rows[-1].max_batch_size is None
    assert rule.choose(9) in KS
