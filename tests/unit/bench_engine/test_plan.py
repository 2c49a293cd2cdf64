from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.bench.engine.plan import NONE, Engine, PlainBlock, PolicyTrace, StaticBlock, seconds_left, units
from tests.unit.bench_engine.factories import settings


def test_every_policy_drives_the_whole_trace_once_per_repeat() -> None:
    traces = [unit for unit in units(settings(repeats=2)) if isinstance(unit, PolicyTrace)]
    assert sorted((one.policy, one.repeat) for one in traces) == [
        (policy, repeat) for policy in ("acceptance", "ema", "model", "outrider") for repeat in (0, 1)
    ]
    assert all(one.trace == settings().trace for one in traces)


def test_the_second_repeat_mirrors_the_first() -> None:
    order = [unit.policy for unit in units(settings(repeats=2)) if isinstance(unit, PolicyTrace)]
    assert order[4:] == order[3::-1]


def test_every_round_holds_every_static_table_under_every_load() -> None:
    blocks = [unit for unit in units(settings(rounds=4)) if isinstance(unit, StaticBlock)]
    assert [(one.round, one.load.name) for one in blocks] == [
        (number, load) for number in range(4) for load in ("code x1", "code x24")
    ]
    assert all(sorted(one.order) == ["0", "1", "3", "hand"] for one in blocks)


def test_the_order_within_a_round_is_shuffled_by_the_seed() -> None:
    def orders(seed: int) -> list[tuple[str, ...]]:
        return [unit.order for unit in units(settings(seed=seed)) if isinstance(unit, StaticBlock)]

    assert len(set(orders(1))) > 1
    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_rounds_lie_around_and_between_the_traces() -> None:
    planned = units(settings(rounds=3))
    traces = [index for index, unit in enumerate(planned) if isinstance(unit, PolicyTrace)]
    first_of_round = {unit.round: index for index, unit in reversed(list(enumerate(planned)))
                      if isinstance(unit, StaticBlock)}  # fmt: skip
    assert first_of_round[0] < traces[0]
    assert traces[3] < first_of_round[1] < traces[4]
    assert traces[-1] < first_of_round[2]


def test_the_plain_engine_is_visited_twice_and_not_at_the_ends() -> None:
    planned = units(settings())
    engines = [unit.engine for unit in planned]
    visits = [index for index, (a, b) in enumerate(pairwise(engines)) if a is not b]
    assert len(visits) == 4
    assert engines[0] is engines[-1] is Engine.SPECULATIVE


def test_the_plain_engine_is_counted_as_long_as_each_static_table() -> None:
    plain = [unit for unit in units(settings(rounds=4)) if isinstance(unit, PlainBlock)]
    assert sum(unit.counted_seconds for unit in plain if unit.load.streams == 24) == 4 * 4.0


def test_units_have_names_of_their_own() -> None:
    keys = [unit.key for unit in units(settings())]
    assert len(set(keys)) == len(keys)


def test_arms_that_are_left_out_cost_no_time() -> None:
    planned = units(settings(arms=("ema",), repeats=1))
    assert [unit.key for unit in planned] == ["ema 1"]


@pytest.mark.parametrize(
    "other",
    [{"seed": 1}, {"repeats": 3}, {"rounds": 6}, {"arms": (NONE,)}, {"trace": "1:60,24:60,1:41"}],
    ids=str,
)
def test_other_settings_are_another_plan(other: dict[str, object]) -> None:
    assert settings(**other).fingerprint != settings().fingerprint  # type: ignore[arg-type]
    assert settings().fingerprint == settings().fingerprint


def test_what_is_left_counts_load_and_relaunches() -> None:
    planned = units(settings(arms=(NONE, "ema"), repeats=1))
    alone = [unit for unit in planned if isinstance(unit, PolicyTrace)]
    running = seconds_left(alone, Engine.SPECULATIVE)
    assert running >= 160
    assert seconds_left(alone, None) > running
    assert seconds_left(planned, Engine.SPECULATIVE) > running + sum(
        unit.seconds for unit in planned if isinstance(unit, PlainBlock)
    )


def test_a_longer_push_makes_longer_slots() -> None:
    def load_seconds(switch: float) -> float:
        return sum(unit.seconds for unit in units(replace(settings(), switch_seconds=switch)))

    blocks, tables = 8, 4
    assert load_seconds(3.0) - load_seconds(2.0) == blocks * tables
