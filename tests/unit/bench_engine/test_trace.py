from __future__ import annotations

import pytest

from examples.kit.loads import Load, Prompts
from examples.kit.prompts import Kind
from tests.bench.engine.trace import loads_of, parse_trace


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


TEXTS = ("gsm8k", "cnn")


def test_a_step_may_name_a_text_of_a_stand_in_and_a_context() -> None:
    trace = parse_trace("8:60:gsm8k,8:60:cnn@2000,8:60:prose@500,8:60:@300", Prompts.CODE, TEXTS)
    assert [phase.load for phase in trace] == [
        Load(8, Prompts.CODE, "gsm8k"),
        Load(8, Prompts.CODE, "cnn", 2000),
        Load(8, Prompts.PROSE, "", 500),
        Load(8, Prompts.CODE, "", 300),
    ]
    assert [phase.load.name for phase in trace] == ["gsm8k x8", "cnn@2000 x8", "prose@500 x8", "code@300 x8"]


@pytest.mark.parametrize("text", ["8:60:poems", "8:60:gsm8k@", "8:60:gsm8k@long", "8:60:gsm8k@-1"])
def test_a_text_or_a_context_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="step 1: "):
        parse_trace(text, Prompts.CODE, TEXTS)


def test_real_engines_have_no_texts_to_name() -> None:
    with pytest.raises(ValueError, match="step 1: "):
        parse_trace("8:60:gsm8k", Prompts.CODE)
