from __future__ import annotations

from itertools import pairwise

from tests.bench.engine.plan import Engine, PlainBlock, PolicyTrace, StaticBlock, units
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
