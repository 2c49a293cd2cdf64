"""Chat clients are served by the tiny models, though these only continue text."""

from __future__ import annotations

import pytest

from outrider.verify.structured import Form, request_part
from tests.contract.engine import SERVED_NAME, Engine

pytestmark = pytest.mark.contract

ROLE_AND_TEXT = [{"role": "system", "content": "Code only."}, {"role": "user", "content": "def main(argv):"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "def main(argv):"}]}]


@pytest.mark.parametrize("messages", [ROLE_AND_TEXT, PARTS], ids=["text", "parts"])
def test_a_chat_is_answered(engine: Engine, messages: list[dict[str, object]]) -> None:
    body = {"model": SERVED_NAME, "messages": messages, "max_tokens": 8, "ignore_eos": True}
    with engine.client() as client:
        response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["completion_tokens"] == 8


def test_what_was_said_takes_its_bytes_and_no_more(engine: Engine) -> None:
    with engine.client() as client:
        response = client.post("/tokenize", json={"model": SERVED_NAME, "messages": ROLE_AND_TEXT})
    assert response.json()["count"] == len("Code only.\ndef main(argv):")


def test_an_engine_without_a_parser_declines_tool_calls_by_the_name_of_the_flag(engine: Engine) -> None:
    """`outrider verify` passes the sentence on."""
    body = {"model": SERVED_NAME, "messages": ROLE_AND_TEXT, **request_part(Form.TOOL_CALLS)}
    with engine.client() as client:
        response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    assert "--tool-call-parser to be set" in response.json()["error"]["message"]
