"""K limits of requests: one request verifies fewer drafts, the others of its batch keep theirs.

On both of vLLM's runners, with synchronous and asynchronous scheduling. V2 runs by Triton's interpreter.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, repeat
from pathlib import Path

import httpx
import pytest

from tests.contract import quick_start
from tests.contract.answers import PROMPTS, TOKENS, Answer, answers_together, compare
from tests.contract.engine import (
    DRAFT_MODEL,
    REQUEST_SECONDS,
    SERVED_NAME,
    Engine,
    Launch,
    running_engine,
    write_limits,
)
from tests.contract.equality import assert_equal_up_to_noise
from tests.contract.gaps import push
from tests.contract.measuring import Samples, scrape, settled, sometime
from tests.contract.v2 import ASYNCHRONOUS, CANDIDATES, SYNCHRONOUS, a_launch, is_asynchronous

pytestmark = pytest.mark.contract

INTERPRETED = pytest.mark.nightly("the interpreter takes 50 ms per step")
KEY, HEADER = "outrider_max_k", "X-Outrider-Max-K"
V1, V2 = "V1", "V2"
SHORT = 24
"""Tokens of a request."""
DRAFTED, LIMITED_DRAFTS = "outrider:draft_tokens_total", "outrider:limited_draft_tokens_total"
LIMITED = "outrider:limited_requests_total"
VLLMS_DRAFTS = "vllm:spec_decode_num_draft_tokens_total"
LONG = "def main(argv):\n    return argv\n\n\ndef "
OUTCOMES = "outrider:request_limits_total"


LAUNCHES = [
    pytest.param(
        (runner, scheduling),
        id=f"{runner}-{scheduling}",
        # A GPU has V2 with asynchronous scheduling.
        marks=[INTERPRETED] if (runner, scheduling) == (V2, SYNCHRONOUS) else [],
    )
    for runner in (V1, V2)
    for scheduling in (SYNCHRONOUS, ASYNCHRONOUS)
]


SHARED = {(V1, SYNCHRONOUS): "served", (V2, ASYNCHRONOUS): "on_v2"}
"""Fixtures with an engine of that launch."""


@pytest.fixture(scope="module", params=LAUNCHES)
def launched(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    runner, scheduling = request.param
    if shared := SHARED.get(request.param):
        engine = request.getfixturevalue(shared)
        assert engine.first_state["runner"] == runner
        yield engine
        return
    of_v1 = Launch(
        DRAFT_MODEL,
        candidates=CANDIDATES,
        plugins=(quick_start.NAME,),
        asynchronous=scheduling == ASYNCHRONOUS,
    )
    launch = of_v1 if runner == V1 else a_launch(scheduling)
    with running_engine(plugin, tmp_path_factory.mktemp("limits"), launch) as engine:
        assert engine.first_state["runner"] == runner
        yield engine


@pytest.fixture(scope="module")
def served(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """What the API server does is the same on every runner. It started with a limit of all requests."""
    launch = Launch(DRAFT_MODEL, candidates=CANDIDATES, plugins=(quick_start.NAME,))
    folder = tmp_path_factory.mktemp("served")
    write_limits(folder, {"name": "all", "maxK": 0, "when": {"maxTokensBelow": 10**6}})
    with running_engine(plugin, folder, launch) as engine:
        engine.limit()
        yield engine


def limited_to(k: object) -> dict[str, object]:
    return {"vllm_xargs": {KEY: k}}


def counted_with(
    engine: Engine, plain: Sequence[Answer], fields: Sequence[Mapping[str, object]], name: str
) -> Samples:
    """What requests of these fields count together; their tokens are those of no speculation."""
    before, prompts = scrape(engine), PROMPTS[: len(fields)]
    answers = answers_together(engine, prompts, fields)
    assert_equal_up_to_noise(compare(plain[: len(fields)], answers), f"limits_{name}")
    counted = settled(engine, before=before, tokens=TOKENS * len(fields))
    assert counted.disagreements() == {}
    return counted


def counted_of_a_shared_batch(
    engine: Engine,
    plain: Sequence[Answer],
    fields: Sequence[Mapping[str, object]],
    name: str,
    *,
    counter: str = LIMITED,
) -> Samples:
    """As ``counted_with``, from the first try in which a request with a limit met one without.

    On a busy machine the first request can end before the others arrive. counter: counts where they met.
    """
    tries = (counted_with(engine, plain, fields, name) for _ in repeat(None))
    return sometime(tries, lambda counted: counted.total(counter) > 0)[-1]


def test_a_request_without_drafts_and_one_with_share_a_batch(
    launched: Engine, term: int, plain: list[Answer], request: pytest.FixtureRequest
) -> None:
    push(launched, term, 1, 3)
    counted = counted_of_a_shared_batch(launched, plain, [limited_to(0), {}], request.node.callspec.id)
    assert is_asynchronous(launched) == request.node.callspec.id.endswith(ASYNCHRONOUS)
    drafted, together = counted.by(DRAFTED, "position"), {"batch": "2-3", "k": "3"}
    assert set(drafted) == {"0", "1", "2"}
    steps = counted.total("outrider:steps_total", **together)
    assert steps > 0, "they never shared a batch"
    assert counted.by(LIMITED, "position", **together) == dict.fromkeys("012", steps)
    # Of two requests one drafts. The step of a prompt and the one after it may have fewer.
    assert counted.total(DRAFTED, position="0", **together) <= steps
    assert counted.total("outrider:withheld_draft_tokens_total") > 0
    assert counted.by(OUTCOMES, "outcome") == {"Applied": 1}
    assert counted.total(LIMITED_DRAFTS) == 0


def test_a_lone_request_without_drafts_makes_steps_of_k_0(launched: Engine, term: int) -> None:
    push(launched, term, 1, 3)
    before = scrape(launched)
    complete(launched, SHORT, limited_to(0))
    counted = settled(launched, before=before, tokens=SHORT)
    assert counted.by("outrider:steps_total", "k") == {"0": SHORT}
    assert counted.total("vllm:spec_decode_num_draft_tokens_total") == 0


def test_a_request_with_fewer_drafts_counts_apart(
    launched: Engine, term: int, plain: list[Answer], request: pytest.FixtureRequest
) -> None:
    push(launched, term, 1, 3)
    name = f"few_{request.node.callspec.id}"
    fields = [limited_to(1), {}, {}]
    counted = counted_of_a_shared_batch(launched, plain, fields, name, counter=LIMITED_DRAFTS)
    assert set(counted.by(LIMITED_DRAFTS, "position")) == {"0"}
    assert set(counted.by(LIMITED, "position")) == {"1", "2"}
    # A step of that request alone drafts one token, so its drafts count with K=1.
    assert set(counted.by(LIMITED_DRAFTS, "k")) <= {"3", "mixed"}


def test_limits_at_random_change_no_token_and_no_sum(
    launched: Engine, term: int, plain: list[Answer], request: pytest.FixtureRequest
) -> None:
    """While the schedule changes all the time, and answers have a limit of their own at first."""
    launched.limit({"name": "early", "maxK": 1, "when": {"firstOutputTokens": 10}})
    choice = random.Random(7)
    limits: list[Mapping[str, object]] = [
        {} if k is None else limited_to(k) for k in choice.choices((None, 0, 1, 2, 3), k=len(PROMPTS))
    ]
    name, schedules = f"random_{request.node.callspec.id}", enumerate(cycle((3, 1, 0, 2)), start=1)

    def counted_across_changes() -> Samples:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(counted_with, launched, plain, limits, name)
            for epoch, k in schedules:
                push(launched, term, epoch, k)
                if running.done():
                    break
            return running.result()

    tries = (counted_across_changes() for _ in repeat(None))
    sometime(tries, lambda counted: min(counted.total(DRAFTED), counted.total(LIMITED)) > 0)
    launched.limit()
    assert launched.state()["problems"] == []


JSON = {"structured_outputs": {"json": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
CONDITIONS: Sequence[tuple[Mapping[str, object], Mapping[str, object]]] = [
    ({"structuredOutput": True}, JSON),
    ({"maxTokensBelow": SHORT}, {"max_tokens": SHORT - 1}),
    ({"promptTokensBelow": 8}, {"prompt": "def "}),
]
"""What a limit rule asks for, and a request that meets it."""


@pytest.mark.parametrize(("when", "met"), CONDITIONS, ids=[next(iter(when)) for when, _ in CONDITIONS])
def test_a_rule_limits_the_requests_that_meet_it(
    launched: Engine, term: int, when: Mapping[str, object], met: Mapping[str, object]
) -> None:
    push(launched, term, 1, 3)
    launched.limit({"name": "rule", "maxK": 0, "when": when})
    drafted = []
    for fields in (met, {}):
        before = launched.counter(VLLMS_DRAFTS)
        body = {"prompt": LONG, "max_tokens": SHORT, **fields}
        post(launched, "/v1/completions", body).raise_for_status()
        drafted.append(launched.counter(VLLMS_DRAFTS) > before)
    launched.limit()
    assert drafted == [False, True]
    assert launched.state()["problems"] == []


def test_the_first_tokens_of_an_answer_have_a_limit_of_their_own(launched: Engine, term: int) -> None:
    push(launched, term, 1, 3)
    launched.limit({"name": "early", "maxK": 0, "when": {"firstOutputTokens": 12}})
    before = scrape(launched)
    complete(launched, SHORT, {})
    launched.limit()
    counted = settled(launched, before=before, tokens=SHORT)
    steps = counted.by("outrider:steps_total", "k")
    # The prompt's step gives the first token. Where steps overlap, one more begins before the last is read.
    assert steps["0"] in (12, 13)
    assert counted.total(DRAFTED) > 0
    assert counted.disagreements() == {}


def test_the_self_test_is_not_limited(served: Engine) -> None:
    """It has to see every K."""
    self_test = served.first_state["selfTest"]
    assert isinstance(self_test, dict)
    assert self_test["state"] == "Passed", self_test


BAD = ["two", "2", -1, 65, 10**30, 1.5, [0]]


@pytest.mark.parametrize("value", BAD, ids=repr)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_bad_limit_is_refused_by_name(served: Engine, value: object, stream: bool) -> None:
    answer = post(served, "/v1/completions", {"prompt": "def ", "stream": stream} | limited_to(value))
    assert answer.status_code == 400, answer.text
    assert KEY in answer.text
    assert httpx.get(f"{served.url}/health", timeout=REQUEST_SECONDS, trust_env=False).is_success


@pytest.mark.parametrize("text", ["off", "-1", "", "1, 2", "9" * 300, "२"])
def test_a_bad_header_is_refused_by_name(served: Engine, text: str) -> None:
    answer = post(served, "/v1/completions", {"prompt": "def "}, header=text)
    assert (answer.status_code, HEADER in answer.text) == (400, True), answer.text


ROUTES: Mapping[str, dict[str, object]] = {
    "/v1/completions": {"prompt": "def "},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "def "}], "max_tokens": 8},
    "/v1/responses": {"input": "def ", "max_output_tokens": 8},
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_takes_the_field_and_the_header(served: Engine, route: str) -> None:
    before = scrape(served)
    for fields, header in ((limited_to(0), None), ({}, "0")):
        answer = post(served, route, ROUTES[route] | fields, header=header)
        assert answer.status_code == 200, answer.text
    counted = settled(served, before=before, tokens=2)
    assert counted.by(OUTCOMES, "outcome") == {"Applied": 2}
    for fields, header in ((limited_to("off"), None), ({}, "off")):
        assert post(served, route, ROUTES[route] | fields, header=header).status_code == 400


@pytest.mark.parametrize(("field", "header", "drafted"), [(3, "0", False), (0, "3", False), (3, "2", True)])
def test_the_smaller_limit_applies(served: Engine, term: int, field: int, header: str, drafted: bool) -> None:
    push(served, term, 1, 3)
    before = scrape(served)
    body = limited_to(field) | {"prompt": "def ", "max_tokens": SHORT}
    post(served, "/v1/completions", body, header=header).raise_for_status()
    counted = settled(served, before=before, tokens=1)
    assert (counted.total("vllm:spec_decode_num_draft_tokens_total") > 0) == drafted
    assert set(counted.by(DRAFTED, "position")) <= {"0", "1"}


def complete(engine: Engine, tokens: int, fields: Mapping[str, object]) -> None:
    body = {"prompt": "def main(argv):\n    ", "max_tokens": tokens, "ignore_eos": True, **fields}
    post(engine, "/v1/completions", body).raise_for_status()


def post(
    engine: Engine, route: str, body: Mapping[str, object], *, header: str | None = None
) -> httpx.Response:
    headers = {} if header is None else {HEADER.encode(): header.encode()}
    with engine.client() as client:
        return client.post(route, json={"model": SERVED_NAME, "temperature": 0, **body}, headers=headers)
