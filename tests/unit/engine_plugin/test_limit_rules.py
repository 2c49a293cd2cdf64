"""K limits that the operator sets for requests that meet a condition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.control.limit_rules import OWN_REQUEST, Arrival, LimitRules, limits_file, parse_rules
from outrider_engine.control.request_limits import KEY, RequestLimits
from outrider_engine.control.verbs import MEASUREMENT, STATE
from outrider_protocol.control_api import Refusal
from outrider_protocol.environment import PUBLIC_KEY_FILE_VARIABLE
from outrider_protocol.request_limits import LIMITS_FILE, LimitCondition, LimitRule
from tests.unit.engine_plugin.factories import CANDIDATES, some_facts
from tests.unit.engine_plugin.fake_vllm import Engine, decoding
from tests.unit.engine_plugin.tuned import an_engine, cells

SHORT = LimitRule("short", 0, LimitCondition(prompt_tokens_below=20))
EARLY = LimitRule("early", 1, LimitCondition(first_output_tokens=8))


@pytest.fixture
def file(vllm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001 - order
    """Where the engine of a test reads its rules."""
    monkeypatch.setenv(PUBLIC_KEY_FILE_VARIABLE, str(tmp_path / "control-key.pub"))
    return tmp_path / LIMITS_FILE


def write(file: Path, *rules: LimitRule) -> None:
    """As the kubelet does: another file takes the place."""
    write_text(file, json.dumps([rule.to_wire() for rule in rules]))


def write_text(file: Path, text: str) -> None:
    new = file.with_name("new")
    new.write_text(text)
    new.replace(file)


def kept(engine: Engine, *names: str, drafts: int = 3) -> dict[str, int]:
    """Draft tokens that each request verifies in a step; `free` has no limit."""
    scheduled = engine.step(decoding(*names, "free", drafts=drafts))
    return {name: len(scheduled.scheduled_spec_decode_tokens.get(name, ())) for name in names}


# Which requests a rule limits.


@pytest.mark.parametrize(
    ("when", "met", "missed"),
    [
        ({"prompt_tokens_below": 20}, {"num_prompt_tokens": 19}, {"num_prompt_tokens": 20}),
        ({"max_tokens_below": 16}, {"max_tokens": 15}, {"max_tokens": 16}),
        (
            {"lora_adapter": "sql"},
            {"lora_request": SimpleNamespace(lora_name="sql")},
            {"lora_request": SimpleNamespace(lora_name="legal")},
        ),
        ({"lora_adapter": "sql"}, {"lora_request": SimpleNamespace(lora_name="sql")}, {}),
        ({"structured_output": True}, {"use_structured_output": True}, {}),
        ({"structured_output": False}, {}, {"use_structured_output": True}),
        (
            {"structured_output": True, "max_tokens_below": 16},
            {"use_structured_output": True, "max_tokens": 1},
            {"use_structured_output": True},
        ),
    ],
    ids=lambda value: ",".join(value),
)
def test_a_rule_limits_the_requests_that_meet_all_of_its_condition(
    file: Path, when: Mapping[str, Any], met: Mapping[str, Any], missed: Mapping[str, Any]
) -> None:
    write(file, LimitRule("one", 1, LimitCondition(**when)))
    engine = an_engine()
    engine.add("met", **met)
    engine.add("missed", **missed)
    assert kept(engine, "met", "missed") == {"met": 1, "missed": 3}
    assert engine.ask(MEASUREMENT)["requestsByRule"] == {"one": 1}


def test_the_first_tokens_of_an_answer_have_their_limit_and_the_others_all_drafts(file: Path) -> None:
    write(file, EARLY)
    engine = an_engine()
    engine.add("a")
    request = engine.core.scheduler.requests["a"]
    for tokens, drafts in ((0, 1), (7, 1), (8, 1), (9, 3)):
        request.num_output_tokens = tokens
        assert kept(engine, "a") == {"a": drafts}, f"with {tokens} tokens"
    assert not engine.core.scheduler._outrider_hooks.control.request_limits.active


def test_the_last_limited_step_drafted_no_more_than_the_limit(file: Path) -> None:
    """So the step that ends the limit verifies what there is, and drafts more."""
    write(file, EARLY)
    engine = an_engine()
    engine.add("a")
    request = engine.core.scheduler.requests["a"]
    found = []
    for tokens in (7, 8, 9):
        request.num_output_tokens = tokens
        step = engine.step(decoding("a", drafts=3))
        found.append((step.num_spec_tokens_to_schedule, len(step.scheduled_spec_decode_tokens["a"])))
    assert found == [(1, 1), (3, 1), (3, 3)]
    assert sum(cells(engine)[3]["limitedDraftTokens"]) == 0, "the K of its drafts was that of the limit"


def test_a_step_that_ends_a_limit_counts_its_drafts_apart(file: Path) -> None:
    """They are shorter than those of the others."""
    write(file, EARLY)
    engine = an_engine()
    engine.add("a")
    for tokens in (7, 8, 9):
        engine.core.scheduler.requests["a"].num_output_tokens = tokens
        kept(engine, "a")
    cell = cells(engine)[3]
    assert cell["limitedDraftTokens"] == [2, 0, 0, 0, 0]
    assert cell["draftTokens"] == [4, 4, 4, 0, 0]
    assert cell["limitedRequests"] == [0, 2, 2, 2, 2]


def test_an_answer_that_ends_among_its_first_tokens_leaves_no_record(file: Path) -> None:
    write(file, EARLY)
    engine = an_engine()
    engine.add("a")
    kept(engine, "a")
    del engine.core.scheduler.requests["a"]
    engine.core.scheduler.requests.default_factory = None
    engine.step(decoding("free", drafts=3, gone=["a"]))
    assert not engine.core.scheduler._outrider_hooks.control.request_limits.active
    assert engine.ask(STATE)["problems"] == []


@pytest.mark.parametrize(("own", "rule", "limit"), [(0, 1, 0), (2, 1, 1), (None, 1, 1), (1, 3, 1)])
def test_of_the_requests_own_limit_and_a_rule_the_smaller_applies(
    file: Path, own: int | None, rule: int, limit: int
) -> None:
    write(file, LimitRule("any", rule, LimitCondition(max_tokens_below=1000)))
    engine = an_engine()
    engine.add("a", None if own is None else {KEY: own})
    assert kept(engine, "a") == {"a": limit}
    assert sum(engine.ask(MEASUREMENT)["requestLimits"].values()) == (own is not None), "its own alone"


_LENGTHS = st.integers(0, 12)


@given(
    own=st.none() | st.integers(0, 6),
    rules=st.lists(st.tuples(st.none() | st.integers(1, 10), st.integers(0, 6)), max_size=5),
    outputs=st.lists(_LENGTHS, max_size=8).map(sorted),
)
def test_at_each_length_of_the_answer_the_smallest_limit_applies(
    own: int | None, rules: list[tuple[int | None, int]], outputs: Sequence[int]
) -> None:
    """Whatever rules there are, in whatever order."""
    source = LimitRules(None)
    source.met_by = lambda _: [  # type: ignore[method-assign, assignment]
        LimitRule(str(place), k, LimitCondition(first_output_tokens=end))
        for place, (end, k) in enumerate(rules)
    ]
    limits = RequestLimits(some_facts(), lambda: frozenset(range(7)), source)
    limits.admit(Arrival("a", None if own is None else {KEY: own}))
    most = max(CANDIDATES)
    for tokens in (0, *outputs):
        limits.end_early(lambda _, tokens=tokens: tokens)  # type: ignore[misc]
        wanted = min([most if own is None else own, *(k for end, k in rules if end is None or tokens < end)])
        found = limits.of("a")
        assert (most if found is None else min(found, most)) == min(wanted, most)


def test_what_rules_leave_out_counts_as_any_limit(file: Path) -> None:
    write(file, LimitRule("off", 0, LimitCondition(structured_output=True)))
    engine = an_engine()
    engine.add("json", use_structured_output=True)
    kept(engine, "json")
    assert cells(engine)[3]["limitedRequests"] == [1] * 5
    assert engine.ask(MEASUREMENT)["withheldDraftTokens"] == 3


def test_the_plugins_own_requests_are_never_limited(file: Path) -> None:
    """The self-test and the step-time profile have to see every K."""
    write(file, LimitRule("all", 0, LimitCondition(max_tokens_below=1000)))
    engine = an_engine()
    name = f"{OWN_REQUEST}1"
    engine.add(name)
    assert kept(engine, name) == {name: 3}


# Where rules come from.


def test_rules_change_without_a_restart_for_requests_that_arrive_later(file: Path) -> None:
    engine = an_engine()
    engine.add("before", num_prompt_tokens=5)
    write(file, SHORT)
    engine.add("after", num_prompt_tokens=5)
    assert kept(engine, "before", "after") == {"before": 3, "after": 0}
    assert engine.ask(MEASUREMENT)["requestsByRule"] == {"short": 1}
    file.unlink()
    engine.add("last", num_prompt_tokens=5)
    assert kept(engine, "last") == {"last": 3}
    assert engine.ask(MEASUREMENT)["requestsByRule"] == {}


def test_metrics_name_a_rule_before_a_request_met_it(file: Path) -> None:
    engine = an_engine()
    write(file, SHORT)
    assert engine.ask(MEASUREMENT)["requestsByRule"] == {"short": 0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"a": 1}',
        "[1]",
        "[" * 100_000,
        '[{"name": "a", "maxK": 0}]',
        '[{"name": "a", "maxK": -1, "when": {}}]',
        '[{"name": "a", "maxK": 99, "when": {}}]',
        '[{"name": 1, "maxK": 0, "when": {}}]',
        '[{"name": "a", "maxK": 0, "when": {"ofANewerOperator": 1}}]',
        '[{"name": "a", "maxK": 0, "when": {"loraAdapter": 1}}]',
        '[{"name": "a", "maxK": 0, "when": {"structuredOutput": 1}}]',
        '[{"name": "a", "maxK": 0, "when": {"firstOutputTokens": 0}}]',
        json.dumps([SHORT.to_wire()] * 17),
    ],
)
def test_rules_that_cannot_be_read_leave_those_before_and_are_reported(file: Path, text: str) -> None:
    write(file, SHORT)
    engine = an_engine()
    engine.add("a", num_prompt_tokens=5)
    write_text(file, text)
    engine.add("b", num_prompt_tokens=5)
    assert kept(engine, "a", "b") == {"a": 0, "b": 0}
    (problem,) = engine.ask(STATE)["problems"]
    assert problem.startswith("the limit rules cannot be used, the ones before apply:")
    write(file)
    assert engine.ask(STATE)["problems"] == []


def test_an_engine_without_a_key_has_no_rules() -> None:
    assert limits_file({}) is None
    rules = LimitRules(None)
    assert rules.met_by(Arrival("a", None)) == []


@given(
    st.builds(
        LimitRule,
        st.sampled_from(("a", "ü")),
        st.integers(0, 32),
        st.builds(
            LimitCondition,
            *[st.none() | st.integers(1, 100)] * 3,
            st.none() | st.sampled_from(("a", "ü")),
            st.none() | st.booleans(),
        ),
    )
)
def test_what_the_operator_writes_is_what_the_plugin_reads(rule: LimitRule) -> None:
    assert parse_rules(json.loads(json.dumps([rule.to_wire()]))) == (rule,)


def test_a_rule_without_a_list_is_refused() -> None:
    with pytest.raises(Refusal, match="limit rules must be a list of at most 16"):
        parse_rules({})
