"""The parts of a request to the control API: a signature, a body of bounded size, JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from outrider_engine.control.parsing import require_keys
from outrider_engine.control.signature import Gate, read_signature
from outrider_protocol.control_api import Reason, Refusal

MAX_BODY_BYTES = 64 * 1024


async def read_signed(
    chunks: AsyncIterator[bytes], gate: Gate, *, method: str, path: str, authorization: str | None
) -> bytes:
    """The whole body of a request that ``gate`` admits.

    Without a header that can be a signature the body is not even read.

    Raises:
        Refusal: `Reason.UNAUTHORIZED` or `Reason.TOO_LARGE`.
    """
    signature = read_signature(authorization)
    body = await read_body(chunks)
    gate.admit(signature, method=method, path=path, body=body)
    return body


async def read_body(chunks: AsyncIterator[bytes], *, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body; reading stops at the limit.

    Raises:
        Refusal: `Reason.TOO_LARGE`.
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise Refusal(Reason.TOO_LARGE, f"the body exceeds {limit} bytes")
    return bytes(body)


def parse_json(body: bytes) -> object:
    """Read the bytes of a body.

    Raises:
        Refusal: `Reason.MALFORMED`.
    """
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(Reason.MALFORMED, "the body is not JSON") from error
    return value


def parse_measuring(value: object) -> bool:
    """Read the body of ``PUT /outrider/v1/measuring``.

    Raises:
        Refusal: `Reason.MALFORMED`.
    """
    enabled = require_keys(value, "the body", "enabled")["enabled"]
    if not isinstance(enabled, bool):
        raise Refusal(Reason.MALFORMED, "enabled must be true or false")
    return enabled
