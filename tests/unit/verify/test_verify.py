"""What answers say of speculation: ties, defects, and distributions with a known power."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.verify.chi_square import power, quantile, tail
from outrider.verify.greedy import TIE, Comparison, Difference, Step, compare
from outrider.verify.result import Result, Verdict, json_of, text_of
from outrider.verify.sampling import LEVEL, PositionTest, Same, differs, position_tests

EQUAL, DEFECT = Difference(Comparison.EQUAL), Difference(Comparison.DEFECT, 3, "a", "b", 1.5)


def an_answer(*tokens: str, top: dict[str, float] | None = None) -> list[Step]:
    return [Step(token, {token: -0.1, **(top or {})}) for token in tokens]


def test_equal_tokens_are_equal_whatever_their_numbers() -> None:
    plain = [Step("a", {"a": -0.1})]
    assert compare(plain, [Step("a", {"a": -0.7})]) == EQUAL


@pytest.mark.parametrize(
    ("other", "told"),
    [(-0.1, Comparison.TIE), (-0.1 - TIE + 0.01, Comparison.TIE), (-0.1 - TIE - 0.01, Comparison.DEFECT)],
)
def test_where_answers_part_the_gap_tells_a_tie_from_a_defect(other: float, told: Comparison) -> None:
    plain = [*an_answer("x"), Step("a", {"a": -0.1, "b": other})]
    speculated = [*an_answer("x"), Step("b", {"a": -0.1, "b": -0.1})]
    found = compare(plain, speculated)
    assert (found.comparison, found.position, found.plain, found.speculated) == (told, 1, "a", "b")


def test_both_answers_must_call_it_a_tie() -> None:
    found = compare([Step("a", {"a": -1.0, "b": -1.0})], [Step("b", {"b": -0.1, "a": -3.1})])
    assert found.comparison is Comparison.DEFECT
    assert found.gap == pytest.approx(3.0)


def test_a_token_that_is_not_among_the_likeliest_is_a_defect() -> None:
    found = compare(an_answer("a"), an_answer("b"))
    assert (found.comparison, found.gap) == (Comparison.DEFECT, None)


def test_what_comes_after_a_tie_says_nothing() -> None:
    tied = {"a": -0.1, "b": -0.1}
    plain, speculated = [Step("a", tied), *an_answer("c")], [Step("b", tied), *an_answer("d")]
    assert compare(plain, speculated).position == 0


def test_an_answer_that_ends_early_is_a_defect() -> None:
    assert compare(an_answer("a", "b"), an_answer("a")).comparison is Comparison.DEFECT


@pytest.mark.parametrize(
    ("share", "freedom", "known"),
    [(0.95, 1, 3.841), (0.95, 5, 11.070), (0.99, 10, 23.209), (0.99, 100, 135.807)],
)
def test_quantiles_are_those_of_the_tables(share: float, freedom: int, known: float) -> None:
    assert quantile(share, freedom) == pytest.approx(known, abs=0.001)


@given(st.floats(0.001, 0.999), st.integers(1, 200))
def test_the_tail_is_the_inverse_of_the_quantile(share: float, freedom: int) -> None:
    assert tail(quantile(share, freedom), freedom) == pytest.approx(1 - share, abs=1e-8)


@pytest.mark.parametrize("freedom", [1, 7, 60])
def test_without_a_difference_the_power_is_the_level(freedom: int) -> None:
    assert power(0.0, freedom, level=0.05) == pytest.approx(0.05, abs=1e-8)


def test_the_power_of_one_degree_is_that_of_a_normal_test() -> None:
    # A shift of 2.8016 standard errors is seen in 80 of 100 tests at 5 %.
    assert power(2.8016**2, 1, level=0.05) == pytest.approx(0.80, abs=0.001)


@given(st.floats(0.1, 100), st.integers(1, 50))
def test_a_larger_difference_is_seen_more_often(size: float, freedom: int) -> None:
    assert power(size * 1.5, freedom, level=0.01) >= power(size, freedom, level=0.01)


def drawn(shares: dict[str, float], count: int, seed: int) -> list[tuple[str, ...]]:
    chooser = random.Random(seed)
    return [(token,) for token in chooser.choices(list(shares), list(shares.values()), k=count)]


SHARES = {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.05, "e": 0.03, "f": 0.02}
SHIFTED = {"a": 0.3, "b": 0.35, "c": 0.7 / 3, "d": 0.35 / 6, "e": 0.035, "f": 0.07 / 3}


def test_one_distribution_is_called_a_defect_as_rarely_as_the_level_says() -> None:
    called = sum(
        differs(position_tests(drawn(SHARES, 400, 2 * seed), drawn(SHARES, 400, 2 * seed + 1), positions=1))
        for seed in range(1000)
    )
    assert called <= 1000 * LEVEL + 3 * (1000 * LEVEL) ** 0.5


def test_a_shift_is_seen_as_often_as_the_power_says() -> None:
    seen, told = 0, []
    for seed in range(400):
        found = position_tests(drawn(SHARES, 400, 2 * seed), drawn(SHIFTED, 400, 2 * seed + 1), positions=1)
        seen += differs(found)
        told += [each.power for each in found if isinstance(each, PositionTest)]
    assert seen / 400 == pytest.approx(sum(told) / len(told), abs=0.1)
    assert 0.2 < seen / 400 < 0.95


def test_a_position_with_one_token_has_nothing_to_test() -> None:
    answers = [("a",)] * 50
    assert position_tests(answers, answers, positions=1) == (Same(1, 50),)


def test_rare_tokens_share_a_bin() -> None:
    plain = [("a",)] * 50 + [(str(number),) for number in range(10)]
    (found,) = position_tests(plain, plain, positions=1)
    assert isinstance(found, PositionTest)
    assert found.bins == 2


@given(st.lists(st.sampled_from("abcdef"), min_size=20, max_size=200))
def test_a_sample_never_differs_from_itself(tokens: list[str]) -> None:
    answers = [(token,) for token in tokens]
    (found,) = position_tests(answers, answers, positions=1)
    assert isinstance(found, Same) or found.p == pytest.approx(1.0)


def a_result(
    greedy: Sequence[Difference] = (EQUAL,),
    again: Sequence[Difference] = (EQUAL,),
    sampled: Sequence[PositionTest | Same] = (),
) -> Result:
    return Result("prod", "qwen3", 5, 64, TIE, greedy, again, sampled)


SHIFT_SEEN = PositionTest(2, 400, 5, 40.0, 1e-6, 0.9)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (a_result(), Verdict.LOSSLESS),
        (a_result(greedy=(EQUAL, DEFECT)), Verdict.DEFECT),
        (a_result(greedy=(DEFECT,), again=(DEFECT,)), Verdict.UNDECIDED),
        (a_result(sampled=(Same(1, 400), SHIFT_SEEN)), Verdict.SHIFTED),
    ],
)
def test_the_verdict(result: Result, verdict: Verdict) -> None:
    assert result.verdict is verdict
    assert json_of(result)["verdict"] == verdict


def test_people_read_where_answers_part_and_what_a_test_would_have_seen() -> None:
    told = list(text_of(a_result(greedy=(EQUAL, DEFECT), sampled=(Same(1, 400), SHIFT_SEEN))))
    assert "  K=5 and K=0: 1 equal, 0 part at a tie, 1 differ" in told
    assert "  prompt 2, token 4: 'a' or 'b', 1.50 nats apart" in told
    assert "  token 1: always the same token, so there is nothing to test" in told
    assert "  token 2: p = 0.000 over 5 tokens; would see a shift of 10% with probability 0.90" in told
