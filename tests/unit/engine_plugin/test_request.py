"""The size limit and the JSON of a request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider_engine.control.push import parse_push
from outrider_engine.http.request import MAX_BODY_BYTES, parse_json, parse_measuring, read_body
from outrider_protocol.control_api import HTTP_STATUS, Push, Reason, Refusal
from tests.unit.engine_plugin.factories import a_push


async def in_chunks(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def test_a_body_of_the_largest_size_is_read() -> None:
    body = b"x" * MAX_BODY_BYTES
    assert await read_body(in_chunks(body, 1000)) == body


async def test_reading_stops_at_the_limit() -> None:
    chunks = in_chunks(b"x" * 10 * MAX_BODY_BYTES, MAX_BODY_BYTES)
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
    assert isinstance(push, Push)
    assert read(json.dumps(push.to_wire()).encode()) == push


@given(st.binary(max_size=200) | nearly_pushes())
def test_any_bytes_are_either_a_push_or_malformed(body: bytes) -> None:
    reason = read(body)
    assume(isinstance(reason, Reason))
    assert reason is Reason.MALFORMED


def test_a_body_nested_without_end_is_malformed() -> None:
    with pytest.raises(Refusal, match="not JSON"):
        parse_json(b"[" * MAX_BODY_BYTES)


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
