"""Only signed requests for this pod may read and set the table."""

from __future__ import annotations

import json

import httpx
import pytest

from outrider.engine.signing import SigningKey
from tests.contract.engine import KEY, POD_UID, REQUEST_SECONDS, Engine, signing_client
from tests.contract.factories import a_push

pytestmark = pytest.mark.contract

STATE, SCHEDULE = "/outrider/v1/state", "/outrider/v1/schedule"


def send(
    engine: Engine, method: str, path: str, *, body: bytes = b"", authorization: str | None
) -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return httpx.request(
        method, engine.url + path, content=body, headers=headers, timeout=REQUEST_SECONDS, trust_env=False
    )


def signed(method: str, path: str, body: bytes = b"", *, pod_uid: str = POD_UID) -> str:
    return KEY.authorization(method=method, path=path, pod_uid=pod_uid, body=body)


def refused(answer: httpx.Response) -> bool:
    if answer.is_success:
        return False
    assert (answer.status_code, answer.json()["error"]["reason"]) == (401, "Unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Outrider-Ed25519"
    return True


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer the-secret-of-before",
        "Outrider-Ed25519",
        f"Outrider-Ed25519 {'A' * 86}==",
        f"Outrider-Ed25519 {'A' * 60_000}",
        signed("GET", "/outrider/v1/counters"),
        signed("PUT", STATE),
        signed("GET", STATE, b" "),
        signed("GET", STATE, pod_uid="uid-of-a-sibling"),
    ],
    ids=["none", "empty", "token", "cut", "made up", "over-long", "path", "method", "body", "sibling"],
)
def test_what_was_not_signed_for_this_request_is_refused(engine: Engine, authorization: str | None) -> None:
    assert refused(send(engine, "GET", STATE, authorization=authorization))


def test_what_was_signed_for_it_is_answered(engine: Engine) -> None:
    assert send(engine, "GET", STATE, authorization=signed("GET", STATE)).is_success


@pytest.mark.parametrize("change", [{"term": 10**9}, {"epoch": 10**9}, {"leaseSeconds": 3600}], ids=str)
def test_a_push_that_was_altered_on_its_way_changes_nothing(
    engine: Engine, term: int, change: dict[str, object]
) -> None:
    before = engine.state()["schedule"]
    push = a_push(term=term)
    altered = json.dumps(push | change).encode()
    authorization = signed("PUT", SCHEDULE, json.dumps(push).encode())
    assert refused(send(engine, "PUT", SCHEDULE, body=altered, authorization=authorization))
    assert engine.state()["schedule"] == before


def test_a_push_for_a_sibling_changes_nothing(engine: Engine, term: int) -> None:
    before = engine.state()["schedule"]
    with signing_client(engine.url, pod_uid="uid-of-a-sibling") as client:
        assert refused(client.put(SCHEDULE, json=a_push(term=term)))
    assert engine.state()["schedule"] == before


def test_a_replayed_push_is_refused_once_a_newer_one_came(engine: Engine, term: int) -> None:
    older = json.dumps(a_push(term=term, epoch=1)).encode()
    authorization = signed("PUT", SCHEDULE, older)
    assert send(engine, "PUT", SCHEDULE, body=older, authorization=authorization).is_success
    again = send(engine, "PUT", SCHEDULE, body=older, authorization=authorization)
    assert (again.json()["term"], again.json()["epoch"]) == (term, 1)
    engine.put(a_push(term=term, epoch=2)).raise_for_status()
    late = send(engine, "PUT", SCHEDULE, body=older, authorization=authorization)
    assert (late.status_code, late.json()["error"]["reason"]) == (409, "StaleEpoch")


def test_the_key_may_change_while_the_engine_runs(engine: Engine) -> None:
    new = SigningKey.generate()
    try:
        engine.public_key_file.write_text(new.public_pem)
        with signing_client(engine.url, key=new) as client:
            assert client.get(STATE).is_success
        assert refused(send(engine, "GET", STATE, authorization=signed("GET", STATE)))
    finally:
        engine.public_key_file.write_text(KEY.public_pem)


def test_no_signature_reaches_the_log(engine: Engine, term: int) -> None:
    body = json.dumps(a_push(term=term)).encode()
    authorization = signed("PUT", SCHEDULE, body)
    assert send(engine, "PUT", SCHEDULE, body=body, authorization=authorization).is_success
    assert refused(send(engine, "GET", STATE, authorization=authorization))
    log = engine.log_file.read_text(errors="replace")
    assert SCHEDULE in log
    assert authorization.split()[1] not in log
