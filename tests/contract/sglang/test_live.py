"""SGLang changes K between two rounds as the operator pushes, and its drafts are counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import httpx
import pytest

from outrider.engine.signing import SigningKey
from outrider_protocol.sglang_releases import DEFAULT_RELEASE
from tests.contract.engine import POD_UID, STATIC_TABLE, Engine, signing_client
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import Samples, run_streams, scrape, sometime, wait_until
from tests.contract.sglang.counts import EMITTED, GENERATED, PROMPT, counted, ks, text_of
from tests.contract.sglang.engine import CANDIDATES

pytestmark = pytest.mark.contract

TOKENS, STREAMS = 32, 4


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["reason"]


def test_the_state_is_that_of_an_engine_that_can_be_tuned(sglang: Engine) -> None:
    first = sglang.first_state
    assert (first["engineVersion"], first["method"]) == (DEFAULT_RELEASE, "eagle3")
    assert first["capturedK"] == list(CANDIDATES)
    assert first["liveTuning"] == {"possible": True, "reason": None}
    assert (first["source"], first["schedule"]) == ("Static", STATIC_TABLE)


def test_k_goes_up_and_down_between_two_rounds_and_the_text_stays(sglang: Engine, term: int) -> None:
    texts = set[str]()
    for epoch, k in enumerate((0, 3, 5, 1, 0, 5), start=1):
        sglang.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        before = scrape(sglang)
        texts.add(text_of(sglang.complete(max_tokens=TOKENS, prompt=PROMPT)))
        found = counted(sglang, before, TOKENS)
        assert ks(found, batch="1") == {str(k)}
        assert sorted(found.by("outrider:draft_tokens_total", "position")) == [str(j) for j in range(k)]
    assert len(texts) == 1


def test_accepted_tokens_are_those_by_which_rounds_are_fewer(sglang: Engine, term: int) -> None:
    sglang.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    before = scrape(sglang)
    sglang.complete(max_tokens=TOKENS, prompt=PROMPT)
    found = counted(sglang, before, TOKENS)
    assert found.total(EMITTED) == found.total(GENERATED) == TOKENS
    rounds = found.total("sglang:spec_verify_calls_total")
    assert found.total("outrider:draft_tokens_total", position="0") == rounds
    # The last round may accept more than the request still takes.
    assert 0 < TOKENS - 1 - rounds <= found.total("outrider:accepted_tokens_total")


def test_k_follows_the_number_of_requests(sglang: Engine, term: int) -> None:
    table = [{"maxBatchSize": 1, "numSpeculativeTokens": 5}, {"numSpeculativeTokens": 0}]
    sglang.put(a_push(term=term, schedule=table)).raise_for_status()

    def loads() -> Iterator[Samples]:
        for attempt in count():
            before = scrape(sglang)
            tokens = run_streams(
                sglang, streams=STREAMS, requests=1, max_tokens=TOKENS, name=f"load{attempt}_"
            )
            yield counted(sglang, before, tokens)

    # On a busy machine the first request can end before the others arrive.
    found = sometime(loads(), lambda load: "4-6" in load.by("outrider:steps_total", "batch"))[-1]
    assert ks(found, batch="4-6") == {"0"}


def test_the_static_table_returns_when_the_lease_lapses(sglang: Engine, term: int) -> None:
    sglang.put(a_push(term=term, schedule=a_constant(5), lease_seconds=0.5)).raise_for_status()
    wait_until(lambda: sglang.state()["source"] == "Fallback", "the lease did not lapse")
    before = scrape(sglang)
    sglang.complete(max_tokens=TOKENS, prompt=PROMPT)
    found = counted(sglang, before, TOKENS)
    assert ks(found, batch="1") == {"2"}


def test_what_is_stale_unknown_or_signed_by_another_changes_nothing(sglang: Engine, term: int) -> None:
    sglang.put(a_push(term=term, epoch=5)).raise_for_status()
    before = sglang.state()["schedule"]
    assert refusal(sglang.put(a_push(term=term, epoch=4))) == (409, "StaleEpoch")
    assert refusal(sglang.put(a_push(term=term, epoch=6, schedule=a_constant(4)))) == (422, "NotCaptured")
    with signing_client(sglang.url, key=SigningKey.generate(), pod_uid=POD_UID) as stranger:
        answer = stranger.put("/outrider/v1/schedule", json=a_push(term=term, epoch=7))
    assert answer.status_code == 401
    assert sglang.state()["schedule"] == before
