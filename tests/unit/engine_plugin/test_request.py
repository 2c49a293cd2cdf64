"""The token, the size limit and the JSON of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.control import parse_push
from outrider_engine.refusal import HTTP_STATUS, Reason, Refusal
from outrider_engine.request import LARGEST_BODY_BYTES, parse_json, parse_measuring, read_body, require_token


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


@given(st.binary(max_size=200))
def test_any_bytes_are_either_a_push_or_malformed(body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        parse_push(parse_json(body))
    assert refusal.value.reason is Reason.MALFORMED


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
