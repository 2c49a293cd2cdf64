"""A probe of a real engine: its parts draft, and the table returns without a call."""

from __future__ import annotations

import httpx
import pytest

from tests.contract.engine import REQUEST_SECONDS, Engine, signing_client
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import run_streams, scrape, wait_until
from tests.contract.probes import STREAMS, a_probe, loaded, post, probe_of

pytestmark = pytest.mark.contract


def test_each_slice_runs_its_k_and_the_table_returns(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(2))).raise_for_status()
    before = scrape(engine)
    slices: list[dict[str, float]] = [
        {"numSpeculativeTokens": 5, "steps": 8},
        {"numSpeculativeTokens": 0, "seconds": 0.5},
    ]
    with loaded(engine):
        answer = post(engine, a_probe(term, "slices", *slices))
        assert (answer.status_code, answer.json()["probe"]["running"]) == (200, True)
        assert answer.json()["schedule"] == a_constant(2)
        wait_until(lambda: not probe_of(engine)["running"], "the probe did not end", seconds=300)
    probe = probe_of(engine)
    assert probe["reason"] == "Completed"
    five, none = probe["results"]
    assert (five["numSpeculativeTokens"], none["numSpeculativeTokens"]) == (5, 0)
    # A step in which a request begins uses up one of them and does not count.
    assert 0 < five["steps"] <= 8
    assert STREAMS * five["steps"] <= five["scheduledRequests"] <= 6 * five["steps"]
    assert five["emittedTokens"] >= five["scheduledRequests"]
    assert none["emittedTokens"] == none["scheduledRequests"]
    # One step more than its time, however long that one is on a busy machine.
    assert none["steps"] > 0
    assert none["seconds"] < 10 * 0.5
    cells = (scrape(engine) - before).by("outrider:steps_total", "k", batch="4-6")
    assert cells["5"] >= five["steps"]
    assert cells["0"] >= none["steps"]
    assert engine.state()["schedule"] == a_constant(2)
    after = scrape(engine)
    run_streams(engine, streams=STREAMS, requests=1, max_tokens=16)
    assert set((scrape(engine) - after).by("outrider:steps_total", "k")) == {"2"}


def test_a_probe_of_an_idle_engine_ends_at_its_deadline(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    body = a_probe(term, "idle", {"numSpeculativeTokens": 0, "steps": 5}, deadlineSeconds=0.5)
    assert post(engine, body).json()["probe"]["running"]
    wait_until(lambda: not probe_of(engine)["running"], "the probe outlived its deadline")
    assert probe_of(engine)["reason"] == "Deadline"
    assert scrape(engine).total("outrider:probe_running") == 0


def test_a_push_of_another_table_ends_a_probe(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    post(engine, a_probe(term, "long", {"numSpeculativeTokens": 0, "steps": 5})).raise_for_status()
    assert engine.put(a_push(term=term, schedule=a_constant(3))).json()["probe"]["running"]
    assert scrape(engine).total("outrider:probe_running") == 1
    superseded = engine.put(a_push(term=term, epoch=2, schedule=a_constant(1))).json()["probe"]
    assert (superseded["running"], superseded["reason"]) == (False, "Superseded")


@pytest.mark.parametrize(
    ("overrides", "status", "reason"),
    [
        ({"epoch": 0}, 409, "StaleEpoch"),
        ({"epoch": 2}, 409, "StaleEpoch"),
        ({"slices": [{"numSpeculativeTokens": 4, "steps": 1}]}, 422, "NotCaptured"),
        ({"slices": []}, 422, "Malformed"),
        ({"deadlineSeconds": 1e9}, 422, "Malformed"),
        ({"id": "x" * 70_000}, 413, "TooLarge"),
    ],
    ids=["late", "early", "not captured", "no slice", "no end", "too large"],
)
def test_a_refused_probe_changes_nothing(
    engine: Engine, term: int, overrides: dict[str, object], status: int, reason: str
) -> None:
    engine.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    before = engine.state()
    slices = {"numSpeculativeTokens": 1, "steps": 1}
    answer = post(engine, a_probe(term, "refused", slices, **overrides))
    assert (answer.status_code, answer.json()["error"]["reason"]) == (status, reason)
    after = engine.state()
    assert {name for name in after if after[name] != before[name]} <= {"leaseRemainingSeconds"}


def test_a_probe_that_is_not_signed_is_refused(engine: Engine) -> None:
    answer = httpx.post(f"{engine.url}/outrider/v1/probe", json={}, timeout=REQUEST_SECONDS, trust_env=False)
    assert answer.status_code == 401


def test_a_probe_that_was_signed_for_a_sibling_is_refused(engine: Engine, term: int) -> None:
    body = a_probe(term, "p", {"numSpeculativeTokens": 1, "steps": 1})
    with signing_client(engine.url, pod_uid="uid-of-a-sibling") as client:
        assert client.post("/outrider/v1/probe", json=body).status_code == 401
    assert post(engine, body).status_code == 409


def test_a_probe_that_ran_is_not_run_again_by_the_same_request(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    slices = {"numSpeculativeTokens": 0, "steps": 5}
    first, second = (a_probe(term, name, slices, deadlineSeconds=0.5) for name in ("first", "second"))
    for body in (first, second):
        assert post(engine, body).json()["probe"]["running"]
        wait_until(lambda: not probe_of(engine)["running"], "the probe outlived its deadline")
    answer = post(engine, first).json()["probe"]
    assert (answer["id"], answer["running"]) == ("second", False)
