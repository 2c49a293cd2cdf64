"""Who may read and set the table."""

from __future__ import annotations

import httpx
import pytest

from tests.contract.engine import REQUEST_SECONDS, Engine
from tests.contract.factories import a_push

pytestmark = pytest.mark.contract


def status_with(engine: Engine, authorization: str | None) -> int:
    headers = {} if authorization is None else {"Authorization": authorization}
    url = f"{engine.url}/outrider/v1/state"
    response = httpx.get(url, headers=headers, timeout=REQUEST_SECONDS, trust_env=False)
    if not response.is_success:
        assert response.json()["error"]["reason"] == "Unauthorized"
    return response.status_code


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "Basic the-secret-of-this-run"]
)
def test_a_request_without_the_token_is_refused(engine: Engine, authorization: str | None) -> None:
    assert status_with(engine, authorization) == 401


def test_a_push_without_the_token_changes_nothing(engine: Engine, term: int) -> None:
    before = engine.state()["schedule"]
    url = f"{engine.url}/outrider/v1/schedule"
    headers = {"Authorization": "Bearer wrong"}
    body = a_push(term=term)
    response = httpx.put(url, headers=headers, json=body, timeout=REQUEST_SECONDS, trust_env=False)
    assert response.status_code == 401
    assert engine.state()["schedule"] == before


def test_the_token_may_rotate(engine: Engine) -> None:
    old = engine.token_file.read_text()
    try:
        engine.token_file.write_text("another-secret\n")
        assert status_with(engine, "Bearer another-secret") == 200
        assert status_with(engine, f"Bearer {old}") == 401
    finally:
        engine.token_file.write_text(old)


def test_no_token_reaches_the_log(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term)).raise_for_status()
    status_with(engine, "Bearer a-wrong-secret")
    log = engine.log_file.read_text(errors="replace")
    assert "/outrider/v1/schedule" in log
    assert "secret" not in log
