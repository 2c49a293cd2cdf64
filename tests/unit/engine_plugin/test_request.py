"""The token, the size limit and the JSON of a request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider_engine.control import Push, parse_push
from outrider_engine.refusal import HTTP_STATUS, Reason, Refusal
from outrider_engine.request import LARGEST_BODY_BYTES, parse_json, parse_measuring, read_body, require_token
from tests.unit.engine_plugin.factories import a_push


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    return path


def refused(authorization: str | None, token_file: Path | None) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        require_token(authorization, token_file)
    assert refusal.value.reason is Reason.UNAUTHORIZED
    return refusal.value


@pytest.mark.parametrize("authorization", ["Bearer s3cret", "bearer s3cret"])
def test_the_right_token_passes(token_file: Path, authorization: str) -> None:
    require_token(authorization, token_file)


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"],
)
def test_any_other_header_is_refused(token_file: Path, authorization: str | None) -> None:
    refused(authorization, token_file)


def test_a_rotated_token_counts_at_once(token_file: Path) -> None:
    token_file.write_text("new")
    refused("Bearer s3cret", token_file)
    require_token("Bearer new", token_file)


@pytest.mark.parametrize("authorization", ["Bearer ", "Bearer", None])
def test_an_engine_without_a_token_takes_no_request(tmp_path: Path, authorization: str | None) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for path in (None, tmp_path / "missing", empty):
        refused(authorization, path)


def test_a_refusal_tells_no_token(token_file: Path) -> None:
    message = str(refused("Bearer guess", token_file))
    assert "s3cret" not in message
    assert "guess" not in message


async def in_chunks(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def test_a_body_of_the_largest_size_is_read() -> None:
    body = b"x" * LARGEST_BODY_BYTES
    assert await read_body(in_chunks(body, 1000)) == body


async def test_reading_stops_at_the_limit() -> None:
    chunks = in_chunks(b"x" * 10 * LARGEST_BODY_BYTES, LARGEST_BODY_BYTES)
    with pytest.raises(Refusal) as refusal:
        await read_body(chunks)
    assert refusal.value.reason is Reason.TOO_LARGE
    assert len([chunk async for chunk in chunks]) == 8


def read(body: bytes) -> Push | Reason:
    """The push of any body, or why it is none."""
    try:
        return parse_push(parse_json(body))
    except Refusal as refusal:
        return refusal.reason


@st.composite
def nearly_pushes(draw: st.DrawFn) -> bytes:
    """A push as the operator writes it; in half of the cases one field is anything, or some bytes are."""
    push: dict[str, object] = a_push(term=draw(st.integers(0, 9)), epoch=draw(st.integers(0, 9))).to_wire()
    damage = draw(st.sampled_from(["", "", "field", "bytes"]))
    if damage == "field":
        field = draw(st.sampled_from([*push, "other"]))
        push[field] = draw(st.sampled_from([None, True, -1, 0, 0.5, 10**9, "1", [], {}]))
    body = json.dumps(push).encode()
    cut = draw(st.integers(0, len(body)))
    return body[:cut] + draw(st.binary(min_size=1, max_size=3)) + body[cut:] if damage == "bytes" else body


@given(nearly_pushes())
def test_bytes_that_are_read_as_a_push_read_back_as_the_same(body: bytes) -> None:
    push = read(body)
    assume(isinstance(push, Push))
    assert read(json.dumps(push.to_wire()).encode()) == push


@given(st.binary(max_size=200) | nearly_pushes())
def test_any_bytes_are_either_a_push_or_malformed(body: bytes) -> None:
    reason = read(body)
    assume(isinstance(reason, Reason))
    assert reason is Reason.MALFORMED


def test_a_body_nested_without_end_is_malformed() -> None:
    with pytest.raises(Refusal, match="not JSON"):
        parse_json(b"[" * LARGEST_BODY_BYTES)


def test_a_push_is_read() -> None:
    body = b'{"term": 3, "epoch": 17, "schedule": [{"numSpeculativeTokens": 0}], "leaseSeconds": 60}'
    assert parse_push(parse_json(body)).lease_seconds == 60


def test_every_reason_has_a_status() -> None:
    assert HTTP_STATUS.keys() == set(Reason)


def test_measuring_is_switched_by_a_word_of_its_own() -> None:
    assert parse_measuring({"enabled": False}) is False


@pytest.mark.parametrize("body", [{}, {"enabled": 1}, {"enabled": True, "more": 1}, [True], None])
def test_a_malformed_switch_is_refused(body: object) -> None:
    with pytest.raises(Refusal) as refused:
        parse_measuring(body)
    assert refused.value.reason is Reason.MALFORMED
