"""Step times: those of the simulator's formula, and those that give a measured throughput again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.performance.step_time import StepTime as SimulatedStepTime
from outrider.performance.step_time import read_formula
from outrider.performance.tables_file import read_tables
from outrider_twin.acceptance import Curve
from outrider_twin.description import Description, load_shipped, shipped
from outrider_twin.step_time import StepTime
from outrider_twin.throughput import Throughput, survival_from
from tests.unit.twin.factories import a_load

TABLES = Path(__file__).parents[3] / "examples" / "tables" / "visible_tables.json"
PUBLISHED = {"a40_7b": "a40_7b", "gb10_30b_moe": "gb10_qwen3_coder_30b"}
"""A shipped engine, and the published table that it is made from."""

SMALL = st.floats(0, 0.01)


@given(
    st.tuples(st.floats(0.001, 0.1), *[SMALL] * 5),
    st.floats(0, 0.5),
    st.integers(1, 64),
    st.integers(0, 8),
    st.integers(0, 100_000),
    st.integers(0, 2048),
)
def test_a_step_takes_as_long_as_in_the_simulator(
    coefficients: tuple[float, float, float, float, float, float],
    tax: float,
    batch: int,
    k: int,
    kv_tokens: int,
    prompt_tokens: int,
) -> None:
    ours, theirs = StepTime(*coefficients, tax), SimulatedStepTime(*coefficients, tax)
    load = a_load(k=k, batch=batch, kv_tokens=kv_tokens, prompt_tokens=prompt_tokens)
    assert ours.seconds(load) == pytest.approx(theirs.seconds(batch, k, kv_tokens, prompt_tokens))


def test_an_engine_without_a_drafter_pays_no_tax() -> None:
    description = Description.model_validate(
        {"step_time": {"fixed": 0.01}, "kv_tokens": 100, "idle_tax": 0.2}
    )
    with_drafter, without = (description.timing(drafter=drafter) for drafter in (True, False))
    assert with_drafter.seconds(a_load()) == pytest.approx(0.012)
    assert without.seconds(a_load()) == pytest.approx(0.01)


def test_the_h100_is_the_published_formula() -> None:
    (formula,) = json.loads(TABLES.read_text())["formulas"]
    step, curves = read_formula(formula)
    description = load_shipped("h100_8b")
    ours = description.timing(drafter=True)
    for batch, k, kv_tokens, prompt_tokens in [(1, 0, 0, 0), (8, 3, 9000, 0), (64, 5, 70_000, 2000)]:
        load = a_load(k=k, batch=batch, kv_tokens=kv_tokens, prompt_tokens=prompt_tokens)
        assert ours.seconds(load) == pytest.approx(step.seconds(batch, k, kv_tokens, prompt_tokens))
    assert {name: curve.chances for name, curve in description.curves().items()} == {
        name: pytest.approx(chances) for name, chances in curves.items()
    }


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_a_shipped_table_is_the_published_one(name: str, published: str) -> None:
    table, description = read_tables(TABLES)[published], load_shipped(name)
    timing, (curve,) = description.timing(drafter=True), description.curves().values()
    for batch in (1, 2, 3, 8, 12, 30):
        for k in table.candidates:
            tokens = batch * curve.gain(k)
            rate = tokens / timing.seconds(a_load(k=k, batch=batch))
            assert rate == pytest.approx(table.goodput(batch, k))
        plain = batch / description.timing(drafter=False).seconds(a_load(batch=batch))
        assert plain == pytest.approx(table.no_speculation(batch))


def test_every_shipped_engine_is_complete() -> None:
    assert set(shipped()) == {"h100_8b", *PUBLISHED}
    for name in shipped():
        assert load_shipped(name).source


def a_throughput(*rates: float, ks: tuple[int, ...]) -> Throughput:
    return Throughput((1,), ks, (rates,), tuple(1.0 for _ in ks), prompt_token_seconds=0.001)


def test_between_two_k_the_step_time_lies_on_a_line() -> None:
    timing = a_throughput(100, 25, ks=(0, 3))  # 10 ms and 40 ms
    assert [timing.seconds(a_load(k=k)) for k in (1, 2, 4)] == pytest.approx([0.02, 0.03, 0.05])


def test_beyond_the_last_k_a_step_never_gets_shorter() -> None:
    timing = a_throughput(25, 100, ks=(0, 3))  # 40 ms and 10 ms
    assert timing.seconds(a_load(k=8)) == pytest.approx(0.01)


def test_prompt_tokens_prolong_a_step_of_a_measured_table() -> None:
    timing = a_throughput(100, ks=(0,))
    assert timing.seconds(a_load(prompt_tokens=50)) == pytest.approx(0.01 + 0.05)


@given(st.lists(st.floats(1, 10_000), min_size=3, max_size=3), st.integers(1, 500))
def test_a_step_takes_time_whatever_the_batch(rates: list[float], batch: int) -> None:
    rows = tuple((rate,) for rate in rates)
    assert Throughput((1, 8, 64), (0,), rows, (1.0,), 0.0).seconds(a_load(batch=batch)) > 0


def test_survival_is_what_more_tokens_were_accepted() -> None:
    assert survival_from([0, 1, 3], [0, 0.8, 1.6]) == pytest.approx((0.8, 0.4, 0.4))
    assert survival_from([0, 1, 2], [0, None, 1.2]) == pytest.approx((0.6, 0.6))
    assert survival_from([0, 4], [0, None]) is None


@given(st.lists(st.floats(0.05, 1), min_size=1, max_size=8).map(lambda shares: sorted(shares, reverse=True)))
def test_a_curve_accepts_what_its_survival_says(survival: list[float]) -> None:
    curve = Curve.from_survival(survival)
    assert curve.gain(len(survival)) == pytest.approx(1 + sum(survival))
    assert curve.at(len(survival) + 3) == curve.chances[-1]
