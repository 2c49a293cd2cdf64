from __future__ import annotations

from collections.abc import Sequence

import pytest

from examples.kit.loads import Prompts
from tests.bench.engine.figures import Analysis, ArmFigures, figures
from tests.bench.engine.plan import NONE
from tests.bench.engine.records import UnitRecord
from tests.bench.engine.trace import parse_trace
from tests.unit.bench_engine.factories import a_block, a_run

TRACE = parse_trace("1:40,8:40", Prompts.CODE)


def blocks() -> list[UnitRecord]:
    """K=3 is best for one stream, K=0 for eight; a launch without drafter is 10 % above K=0."""
    return [
        *(a_block(number, {"0": 100, "3": 200, "hand": 200}) for number in range(4)),
        *(a_block(number, {"0": 400, "3": 300, "hand": 300}, streams=8) for number in range(4)),
        a_block(0, {NONE: 110}),
        a_block(0, {NONE: 440}, streams=8),
    ]


def a_policy(name: str, one: Sequence[int], eight: Sequence[int], *, number: int = 0) -> UnitRecord:
    return a_run(name, [(1, one), (8, eight)], number=number)


def arm(units: list[UnitRecord], name: str) -> ArmFigures:
    return next(one for one in figures(Analysis(TRACE, units)).arms if one.arm == name)


def test_regret_is_held_against_the_best_table_of_each_phase() -> None:
    found = arm([*blocks(), a_policy("ema", [200] * 40, [300] * 40)], "ema")
    regrets = [phase.regret_whole.value if phase.regret_whole else None for phase in found.phases]
    assert regrets == pytest.approx([0.0, 0.25])
    assert found.regret_whole is not None
    assert found.regret_whole.value == pytest.approx(0.125)
    assert found.worst_regret_whole is not None
    assert found.worst_regret_whole.value == pytest.approx(0.25)


def test_after_the_first_half_minute_only_the_rest_counts() -> None:
    found = arm([*blocks(), a_policy("ema", [100] * 30 + [200] * 10, [400] * 40)], "ema")
    assert found.regret_settled is not None
    assert found.regret_settled.value == pytest.approx(0.0)
    assert found.regret_whole is not None
    assert found.regret_whole.value > 0.1


def test_repeats_count_alike() -> None:
    runs = [a_policy("ema", [rate] * 40, [400] * 40, number=n) for n, rate in enumerate((180, 200))]
    found = arm([*blocks(), *runs], "ema")
    assert found.phases[0].whole.value == pytest.approx(190)
    assert found.phases[0].by_repeat == [180.0, 200.0]
    assert found.phases[0].whole.low == pytest.approx(180)
    assert found.phases[0].whole.high == pytest.approx(200)


def test_loss_is_held_against_the_launch_without_drafter() -> None:
    found = arm([*blocks(), a_policy("ema", [200] * 40, [396] * 40)], "ema")
    assert found.worst_loss is not None
    assert found.worst_loss.value == pytest.approx(0.1)


def test_the_clairvoyant_takes_constant_tables_only() -> None:
    lucky = [a_block(n, {"0": 100, "3": 200, "hand": 999}) for n in range(4)]
    found = figures(Analysis(parse_trace("1:40", Prompts.CODE), lucky))
    assert found.clairvoyant_tokens_per_second == pytest.approx(200)


def test_outrider_is_held_against_the_best_other_rule() -> None:
    runs = [
        a_policy("outrider", [200] * 40, [400] * 40),
        a_policy("ema", [200] * 40, [300] * 40),
        a_policy("model", [100] * 40, [300] * 40),
    ]
    found = figures(Analysis(TRACE, [*blocks(), *runs]))
    assert found.best_rule in ("ema", "hand")
    assert found.ahead_of_best_rule is not None
    assert found.ahead_of_best_rule.value == pytest.approx(0.2)


def test_the_best_mean_bounds_the_regret_from_above() -> None:
    """Equal tables with one lucky slice each: 110 is luck, 100 is what a choice gains."""
    tables = [{"0": zero, "3": three} for zero, three in ((120, 100), (100, 120), (100, 100), (100, 100))]
    units = [a_block(number, rates) for number, rates in enumerate(tables)]
    run = a_run("ema", [(1, [100] * 40)])
    analysis = Analysis(parse_trace("1:40", Prompts.CODE), [*units, run])
    best = figures(analysis).loads[0].clairvoyant
    assert best is not None
    assert (best.tokens_per_second.value, best.best_mean) == (100, 105)
    found = next(one for one in figures(analysis).arms if one.arm == "ema")
    assert found.regret_settled is not None
    assert found.regret_settled.value == pytest.approx(0.0)
    assert found.regret_settled_to_best_mean == pytest.approx(1 - 100 / 105)


def test_a_table_that_was_never_measured_under_a_load_leaves_no_regret_there() -> None:
    units = [
        *(a_block(number, {"0": 100, "3": 200}) for number in range(2)),
        *(a_block(number, {"0": 400}, streams=8) for number in range(2)),
        a_policy("ema", [200] * 40, [300] * 40),
    ]
    found = arm(units, "ema")
    assert [phase.regret_whole is None for phase in found.phases] == [False, True]
