from __future__ import annotations

import pytest

from examples.demo.prompts import Kind
from tests.bench.engine.trace import Load, Prompts, loads_of, parse_trace


def test_a_trace_is_steps_of_streams_and_seconds() -> None:
    trace = parse_trace("1:60, 24:90.5", Prompts.PROSE)
    assert [(phase.load, phase.seconds) for phase in trace] == [
        (Load(1, Prompts.PROSE), 60.0),
        (Load(24, Prompts.PROSE), 90.5),
    ]


def test_a_step_may_name_its_own_prompts() -> None:
    trace = parse_trace("8:60:code,8:60:prose", Prompts.MIXED)
    assert [phase.load.name for phase in trace] == ["code x8", "prose x8"]


@pytest.mark.parametrize(
    "text", ["", "8", "8:x", "0:60", "8:1", "8:60:poems", "8:60,", "8:60:code:1", "8:nan"]
)
def test_a_broken_step_is_refused_by_its_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"step [12]: "):
        parse_trace(text, Prompts.CODE)


def test_a_load_that_comes_twice_is_measured_once() -> None:
    trace = parse_trace("1:60,8:60,1:90", Prompts.CODE)
    assert loads_of(trace) == (Load(1, Prompts.CODE), Load(8, Prompts.CODE))


def test_mixed_prompts_are_both_kinds_in_turn() -> None:
    assert Prompts.MIXED.kinds == (Kind.CODE, Kind.PROSE)
    assert Prompts.PROSE.kinds == (Kind.PROSE,)
