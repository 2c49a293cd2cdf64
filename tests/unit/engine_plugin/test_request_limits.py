"""Requests that ask for fewer draft tokens, or for none."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.control.limit_rules import Arrival
from outrider_engine.control.request_limits import (
    HEADER,
    KEY,
    InvalidLimit,
    Outcome,
    RequestLimits,
    read_header,
    read_limit,
)
from outrider_engine.control.verbs import MEASUREMENT, STATE
from outrider_engine.counting.measure import MAX_STEPS_IN_FLIGHT
from outrider_engine.http.limit_header import LimitHeaderMiddleware
from outrider_engine.vllm_adapter.sampling_params import LIMIT_HEADERS, attach, joined
from outrider_protocol.cost_model import MAX_K
from outrider_protocol.fast_loop import FastLoop
from tests.unit.engine_plugin.factories import CANDIDATES, a_cost_model, some_facts
from tests.unit.engine_plugin.fake_vllm import Engine, Plan, decoding, prompts, some_config
from tests.unit.engine_plugin.tuned import an_engine, cells, put

pytestmark = pytest.mark.usefixtures("vllm", "static_schedule")

POSITIONS = max(CANDIDATES)
BAD: Sequence[object] = ("2", "off", -1, MAX_K + 1, 10**400, 1.0, True, None, [2], {"k": 2})


def some_limits(usable: Sequence[int] = CANDIDATES, **facts: Any) -> RequestLimits:
    return RequestLimits(some_facts(**facts), lambda: frozenset(usable))


# What a request may ask for.


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:20])
def test_a_limit_that_is_no_k_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidLimit, match=f"{KEY} is not a whole number from 0 to {MAX_K}") as refused:
        read_limit(value)
    assert len(str(refused.value)) < 250, "the message does not repeat what the client sent"


@pytest.mark.parametrize("text", ["", "off", "-1", "+1", "1.0", "0x1", "1, 2", "9" * 10_000, "२", "²"])
def test_a_header_that_is_no_k_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidLimit, match=HEADER):
        read_header(text)


@pytest.mark.parametrize(
    ("extra_args", "headers", "limit"),
    [
        (None, ["2"], 2),
        ({KEY: 1}, ["2"], 1),
        ({KEY: 3}, [" 2 "], 2),
        ({KEY: 3}, ["2", "0"], 0),
        ({KEY: 3}, [], 3),
    ],
)
def test_of_field_and_header_the_smaller_limit_applies(
    extra_args: dict[str, object] | None, headers: list[str], limit: int
) -> None:
    found = joined(extra_args, headers)
    assert found is not None
    assert found[KEY] == limit


def test_other_extra_arguments_stay_as_they_are() -> None:
    given_args: dict[str, object] = {"a": 1}
    assert joined(given_args, []) is given_args
    assert joined(given_args, ["2"]) == {"a": 1, KEY: 2}
    assert given_args == {"a": 1}, "the body of the request is not changed"


def test_vllms_error_names_the_field() -> None:
    class Invalid(Exception):
        def __init__(self, message: str, *, parameter: str) -> None:
            super().__init__(message)
            self.parameter = parameter

    class SamplingParams:
        @staticmethod
        def from_optional(extra_args: dict[str, object] | None = None) -> Any:
            return SimpleNamespace(extra_args=extra_args)

    attach(SamplingParams, Invalid)
    assert SamplingParams.from_optional().extra_args is None
    with pytest.raises(Invalid) as refused:
        SamplingParams.from_optional(extra_args={KEY: -1})
    assert refused.value.parameter == KEY


async def test_the_header_lasts_as_long_as_its_request() -> None:
    seen: list[Sequence[str]] = []

    async def app(*_: object) -> None:
        seen.append(LIMIT_HEADERS.get())

    middleware = LimitHeaderMiddleware(app)
    name = HEADER.encode()
    for headers in ([(name, b"2")], [(name.lower(), b"0"), (name, b"1")], [(b"x-other", b"1")]):
        await middleware({"type": "http", "headers": headers}, None, None)  # type: ignore[arg-type]
    await middleware({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == [["2"], ["0", "1"], (), ()]
    assert LIMIT_HEADERS.get() == ()


# Which drafts a request keeps.


def test_drafts_beyond_the_limit_are_withheld_and_the_others_of_the_batch_keep_theirs() -> None:
    engine = an_engine(k=3)
    engine.add("off", {KEY: 0})
    engine.add("one", {KEY: 1})
    engine.add("free")
    scheduled = engine.step(decoding("off", "one", "free", drafts=3, accepted=1))
    assert {name: len(ids) for name, ids in scheduled.scheduled_spec_decode_tokens.items()} == {
        "one": 1,
        "free": 3,
    }
    assert scheduled.num_spec_tokens_to_schedule == 3
    assert engine.ask(MEASUREMENT)["withheldDraftTokens"] == 3 + 2


def test_a_limit_between_candidates_is_the_candidate_below() -> None:
    """No other K was captured, and the step of a request alone drafts that many."""
    limits = some_limits(usable=(0, 1, 3))
    limits.admit(Arrival("two", {KEY: 2}))
    assert limits.of("two") == 1
    assert limits.k_of(["two"], 3) == 1


def test_where_k_cannot_change_a_limit_still_withholds() -> None:
    limits = some_limits(usable=())
    limits.admit(Arrival("two", {KEY: 2}))
    assert limits.of("two") == 2
    assert limits.k_of(["two"], 3) == 3


@pytest.mark.parametrize(
    ("limits", "k"), [((0, 0), 0), ((0, 1), 1), ((1, 2), 2), ((4, 0), 3), ((None, 0), 3), ((3, 5), 3)]
)
def test_a_step_drafts_no_more_than_its_requests_may_verify(limits: Sequence[int | None], k: int) -> None:
    engine = an_engine(k=3)
    names = [f"r{place}" for place, _ in enumerate(limits)]
    for name, limit in zip(names, limits, strict=True):
        engine.add(name, None if limit is None else {KEY: limit})
    assert engine.step(decoding(*names, drafts=3)).num_spec_tokens_to_schedule == k
    assert set(cells(engine)) == {k}


def test_k_that_failed_the_self_test_stays_out() -> None:
    """A step without drafts may be what failed."""
    limits = some_limits(usable=(1, 3))
    limits.admit(Arrival("off", {KEY: 0}))
    assert (limits.of("off"), limits.k_of(["off"], 3)) == (0, 3)


def test_the_limit_ends_with_its_request() -> None:
    engine = an_engine(k=3)
    engine.add("a", {KEY: 0})
    engine.step(decoding("a", "b", drafts=3))
    engine.step(decoding("b", drafts=3, gone=["a"]))
    assert len(engine.step(decoding("a", drafts=3)).scheduled_spec_decode_tokens["a"]) == 3


@pytest.mark.parametrize(
    ("extra_args", "outcome"),
    [({KEY: 0}, Outcome.APPLIED), ({KEY: 5}, Outcome.NO_EFFECT), ({KEY: MAX_K}, Outcome.NO_EFFECT)]
    + [({KEY: bad}, Outcome.INVALID) for bad in BAD],
    ids=lambda value: repr(value)[:30],
)
def test_requests_are_counted_by_what_became_of_their_limit(
    extra_args: dict[str, object], outcome: Outcome
) -> None:
    engine = an_engine()
    engine.add("a", extra_args)
    engine.add("b", {"other": 1})
    engine.add("c")
    counts = engine.ask(MEASUREMENT)["requestLimits"]
    assert counts == {one.value: int(one is outcome) for one in Outcome}, (
        "labels are few whatever clients say"
    )


@pytest.mark.parametrize("method", [None, "extract_hidden_states"])
def test_without_drafts_a_limit_has_no_effect(method: str | None) -> None:
    limits = some_limits(method=method)
    limits.admit(Arrival("a", {KEY: 0}))
    assert (limits.active, limits.outcomes[Outcome.NO_EFFECT]) == (False, 1)


def test_a_pooling_model_has_no_sampling_parameters() -> None:
    engine = an_engine()
    engine.core.scheduler.add_request(SimpleNamespace(request_id="a", sampling_params=None))
    assert engine.ask(STATE)["problems"] == []


# What is counted.


def test_drafts_of_a_limited_request_count_apart() -> None:
    """They are too short to say how often longer ones are accepted."""
    engine = an_engine(k=3)
    engine.add("one", {KEY: 1})
    plan = decoding("one", "a", "b", drafts=3, accepted=1)
    engine.step(plan)
    engine.step(plan)
    cell = cells(engine)[3]
    assert cell["draftTokens"] == [4, 4, 4, 0, 0]
    assert cell["acceptedTokens"] == [4, 0, 0, 0, 0]
    assert cell["limitedDraftTokens"] == [2, 0, 0, 0, 0]
    assert cell["limitedAcceptedTokens"] == [2, 0, 0, 0, 0]
    assert cell["limitedRequests"] == [0, 2, 2, 2, 2]
    assert cell["scheduledRequests"] == 6


def test_a_limit_that_leaves_all_drafts_counts_with_the_others() -> None:
    engine = an_engine(k=1)
    engine.add("two", {KEY: 2})
    engine.step(decoding("a", "two", drafts=1))
    engine.step(decoding("a", "two", drafts=1))
    cell = cells(engine)[1]
    assert cell["draftTokens"] == [3, 0, 0, 0, 0], "before the first step the K of its drafts is unknown"
    assert cell["limitedRequests"] == [0, 0, 2, 2, 2]


def test_requests_without_drafts_are_counted_at_k_0_too() -> None:
    """So the tuner knows them where nothing is drafted."""
    engine = an_engine(k=0)
    engine.add("off", {KEY: 0})
    engine.step(prompts("off", "a"))
    engine.step(decoding("off", "a"))
    assert cells(engine)[0]["limitedRequests"] == [2] * 5


def test_an_engine_without_limits_counts_nothing_of_them() -> None:
    engine = an_engine(k=3)
    engine.step(decoding("a", "b", drafts=3, accepted=2))
    cell = cells(engine)[3]
    assert not any(map(any, (cell["limitedRequests"], cell["limitedDraftTokens"])))


@given(
    requests=st.dictionaries(
        st.sampled_from("abcdefgh"), st.tuples(st.none() | st.integers(0, 6), st.integers(0, 3)), min_size=1
    ),
    k=st.sampled_from((0, 1, 3)),
    ahead=st.booleans(),
)
def test_together_the_sums_are_vllms(
    requests: dict[str, tuple[int | None, int]], k: int, ahead: bool
) -> None:
    """Whatever limits there are, also where the next step is scheduled before the last one is read."""
    limits = some_limits()
    for name, (limit, _) in requests.items():
        limits.admit(Arrival(name, None if limit is None else {KEY: limit}))
    key, drafts = object(), {}
    limits.scheduled(object(), requests, k)
    for name in requests:
        of = limits.of(name)
        drafts[name] = k if of is None else min(k, of)
    apart = limits.scheduled(key, requests, k)
    if ahead:
        limits.scheduled(object(), requests, k)
    limits.reading(key)
    own = [name for name, (_, took) in requests.items() if not limits.counted(name, drafts[name], took)]
    step = limits.end_step()
    assert apart.isdisjoint(own)
    assert all(drafts[name] == k for name in own), "a shorter draft is not among the others"
    assert sum(drafts.values()) == sum(drafts[name] for name in own) + (sum(step.drafted) if step else 0)
    left_out = [
        sum(drafts[n] <= position for n in requests if limits.of(n) is not None) for position in range(k)
    ]
    assert not step or list(step.requests[:k]) == left_out


def test_a_step_without_a_result_leaves_no_record() -> None:
    limits = some_limits()
    limits.admit(Arrival("a", {KEY: 0}))
    last: object = None
    for _ in range(3 * MAX_STEPS_IN_FLIGHT):
        last = object()
        limits.scheduled(last, ["a"], 3)
    limits.reading(object())
    assert limits.end_step() is None
    limits.reading(last)
    assert limits.end_step() is not None
    limits.reading(last)
    assert limits.end_step() is None


def test_a_limited_request_has_no_trimmed_drafts() -> None:
    """Adaptive verification trims drafts of all requests; those of this one are in no sum by position."""
    config = some_config(use_v2_model_runner=True)
    config.speculative_config.enable_adaptive_verification = True
    engine = Engine(config)
    put(engine, 3)
    engine.add("one", {KEY: 1})
    engine.step(decoding("a", "one", drafts=3, accepted=0, outrider_verified=[2, 0]))
    cell = cells(engine)[3]
    assert (cell["draftTokens"], cell["trimmedTokens"]) == ([1, 1, 0, 0, 0], [0, 0, 1, 0, 0])
    assert cell["limitedDraftTokens"] == [1, 0, 0, 0, 0]


def test_the_fast_loop_counts_only_requests_that_may_verify_all_drafts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A withheld draft does not count as rejected."""
    counted: list[tuple[int, int, Sequence[float]]] = []
    monkeypatch.setattr(FastLoop, "count", lambda _, *given: counted.append(given))
    engine = an_engine(k=3)
    put(engine, 3, epoch=2, cost_model=a_cost_model())
    engine.add("off", {KEY: 0})
    engine.add("one", {KEY: 1})
    for _ in range(3):
        engine.step(decoding("off", "one", "a", drafts=3, accepted=1))
    assert counted
    assert {(requests, tuple(accepted)) for _, requests, accepted in counted} == {(1, (1, 0, 0, 0, 0))}


# What must not happen.


def test_a_fault_ends_the_limits_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = an_engine(k=3)
    engine.add("off", {KEY: 0})

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(RequestLimits, "of", fail)
    engine.step(decoding("off", "a", drafts=3))
    engine.add("later", {KEY: 0})
    engine.step(decoding("off", "a", "later", drafts=3))
    state = engine.ask(STATE)
    assert state["problems"] == ["the hook of K limits failed: RuntimeError: broken"]
    assert state["liveTuning"]["possible"]
    assert cells(engine)[3]["steps"] == 2


def test_without_vllms_statistics_limits_apply() -> None:
    engine = Engine(some_config(), log_stats=False)
    engine.add("off", {KEY: 0})
    scheduled = engine.step(
        Plan(tokens={"off": 6}, computed={"off": 9}, outputs={"off": 1}, drafts={"off": 5})
    )
    assert scheduled.scheduled_spec_decode_tokens == {}
