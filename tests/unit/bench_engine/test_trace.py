from __future__ import annotations

import pytest

from examples.kit.loads import Load, Prompts
from tests.bench.engine.trace import parse_trace


def test_a_trace_is_steps_of_streams_and_seconds() -> None:
    trace = parse_trace("1:60, 24:90.5", Prompts.PROSE)
    assert [(phase.load, phase.seconds) for phase in trace] == [
        (Load(1, Prompts.PROSE), 60.0),
        (Load(24, Prompts.PROSE), 90.5),
    ]


@pytest.mark.parametrize(
    "text", ["", "8", "8:x", "0:60", "8:1", "8:60:poems", "8:60,", "8:60:code:1", "8:nan"]
)
def test_a_broken_step_is_refused_by_its_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"step [12]: "):
        parse_trace(text, Prompts.CODE)


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
