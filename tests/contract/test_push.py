"""A push changes what the engine really drafts; a refused one changes nothing."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from tests.contract.engine import STATIC_TABLE, Engine
from tests.contract.factories import Rows, a_constant, a_push
from tests.contract.load import WHOLE, busy

pytestmark = pytest.mark.contract

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
GENERATED = "vllm:generation_tokens_total"

UNCHANGING = ("source", "schedule", "term", "epoch")

LEASE_SECONDS, LATE_SECONDS = 2.0, 10.0


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["reason"]


def in_force(engine: Engine) -> list[object]:
    state = engine.state()
    return [state[name] for name in UNCHANGING]


def drafting_of(engine: Engine, *, max_tokens: int) -> tuple[float, float]:
    """The drafts and draft tokens of one request that runs alone."""
    before = [engine.counter(name) for name in (GENERATED, DRAFTS, DRAFT_TOKENS)]
    engine.complete(max_tokens=max_tokens)
    deadline = time.monotonic() + 30
    while engine.counter(GENERATED) < before[0] + max_tokens:
        assert time.monotonic() < deadline, "the engine did not count its own tokens"
        time.sleep(0.05)
    return engine.counter(DRAFTS) - before[1], engine.counter(DRAFT_TOKENS) - before[2]


def test_a_push_is_read_back_from_the_scheduler(engine: Engine, term: int) -> None:
    table: Rows = [
        {"maxBatchSize": 4, "numSpeculativeTokens": 5},
        {"maxBatchSize": 64, "numSpeculativeTokens": 1},
        {"numSpeculativeTokens": 0},
    ]
    answer = engine.put(a_push(term=term, epoch=7, schedule=table))
    assert answer.status_code == 200
    state = engine.state()
    assert [state[name] for name in UNCHANGING] == ["Pushed", table, term, 7]
    assert answer.json()["schedule"] == table


@pytest.mark.parametrize("k", [3, 1, 5])
def test_real_drafting_follows_the_push(engine: Engine, term: int, k: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(k))).raise_for_status()
    drafts, draft_tokens = drafting_of(engine, max_tokens=48)
    assert drafts > 0
    assert draft_tokens / drafts == k


def test_drafting_stops_at_zero_and_comes_back(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, epoch=1, schedule=a_constant(0))).raise_for_status()
    assert drafting_of(engine, max_tokens=48) == (0, 0)
    engine.put(a_push(term=term, epoch=2, schedule=a_constant(3))).raise_for_status()
    assert drafting_of(engine, max_tokens=48)[1] > 0


def test_the_same_push_renews_the_lease(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, lease_seconds=20)).raise_for_status()
    renewed = engine.put(a_push(term=term, lease_seconds=200)).json()
    assert 190 < renewed["leaseRemainingSeconds"] <= 200


def test_an_older_push_is_refused(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, epoch=5)).raise_for_status()
    before = in_force(engine)
    assert refusal(engine.put(a_push(term=term, epoch=4))) == (409, "StaleEpoch")
    assert refusal(engine.put(a_push(term=term - 1, epoch=99))) == (409, "StaleEpoch")
    assert in_force(engine) == before


def test_another_table_under_the_same_epoch_is_refused(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    before = in_force(engine)
    assert refusal(engine.put(a_push(term=term, schedule=a_constant(1)))) == (409, "StaleEpoch")
    assert in_force(engine) == before


def test_a_k_that_was_not_launched_is_refused(engine: Engine, term: int) -> None:
    before = in_force(engine)
    assert refusal(engine.put(a_push(term=term, schedule=a_constant(4)))) == (422, "NotCaptured")
    assert in_force(engine) == before


MALFORMED = {
    "empty": b"",
    "no JSON": b"not json",
    "no text": b"\xff\xfe",
    "nested without end": b"[" * 20_000,
    "no object": b"[]",
    "term is no whole number": json.dumps(a_push(term=1) | {"term": 1e9}).encode(),
    "no row": json.dumps(a_push(term=1) | {"schedule": []}).encode(),
    "lease is no number": json.dumps(a_push(term=1) | {"leaseSeconds": float("nan")}).encode(),
    "last row is bounded": json.dumps(a_push(term=1, schedule=STATIC_TABLE[:1])).encode(),
    "unknown key": json.dumps(a_push(term=1) | {"probe": True}).encode(),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_body_is_refused(engine: Engine, body: bytes) -> None:
    before = in_force(engine)
    with engine.client() as client:
        assert refusal(client.put("/outrider/v1/schedule", content=body)) == (422, "Malformed")
    assert in_force(engine) == before


def test_an_oversized_body_is_refused(engine: Engine) -> None:
    before = in_force(engine)
    with engine.client() as client:
        assert refusal(client.put("/outrider/v1/schedule", content=b" " * 70_000)) == (413, "TooLarge")
    assert in_force(engine) == before


def test_the_static_table_returns_when_the_lease_lapses(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(5), lease_seconds=0.5)).raise_for_status()
    deadline = time.monotonic() + 30
    while (state := engine.state())["source"] != "Fallback":
        assert time.monotonic() < deadline, f"the lease did not lapse: {state}"
        time.sleep(0.05)
    assert state["schedule"] == STATIC_TABLE
    assert drafting_of(engine, max_tokens=24)[1] > 0
    assert (state["term"], state["leaseRemainingSeconds"]) == (term, None)


def test_a_lease_lapses_in_the_middle_of_a_request(engine: Engine, term: int) -> None:
    """No request of the control API comes in between: the step hook alone does it."""
    engine.put(a_push(term=term, schedule=a_constant(0), lease_seconds=0.2)).raise_for_status()
    drafts, draft_tokens = drafting_of(engine, max_tokens=160)
    assert drafts > 0
    assert draft_tokens / drafts == STATIC_TABLE[0]["numSpeculativeTokens"]


def test_a_lease_ends_in_time_under_load(engine: Engine, term: int) -> None:
    with busy(engine, streams=8) as ends:
        pushed = time.monotonic()
        answer = engine.put(a_push(term=term, schedule=a_constant(5), lease_seconds=LEASE_SECONDS))
        answered = time.monotonic()
        assert answer.json()["source"] == "Pushed"
        while (state := engine.state())["source"] == "Pushed":
            assert time.monotonic() - answered < LEASE_SECONDS + LATE_SECONDS, "the lease does not lapse"
        lapsed = time.monotonic() - pushed
    assert [state[name] for name in UNCHANGING] == ["Fallback", STATIC_TABLE, term, 1]
    assert lapsed >= LEASE_SECONDS
    assert set(ends) == {WHOLE}
    print(f"a lease of {LEASE_SECONDS} s was seen to end after {lapsed:.2f} s")
