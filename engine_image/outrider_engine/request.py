"""What a request to the control API must carry: the token, a body of bounded size, JSON."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path

from outrider_engine.refusal import Reason, Refusal
from outrider_engine.table import require_keys

LARGEST_BODY_BYTES = 64 * 1024


def require_token(authorization: str | None, token_file: Path | None) -> None:
    """Refuse a request without the token of this moment; the file may rotate at any time.

    Raises:
        Refusal: `Reason.UNAUTHORIZED`.
    """
    expected = _read_token(token_file)
    scheme, _, given = (authorization or "").partition(" ")
    # Digests have one length, so the comparison tells nothing about the token's own.
    equal = hmac.compare_digest(_digest(given.strip().encode()), _digest(expected))
    if not expected:
        raise Refusal(Reason.UNAUTHORIZED, "the engine has no token, so it takes no request")
    if scheme.lower() != "bearer" or not equal:
        raise Refusal(Reason.UNAUTHORIZED, "the bearer token is missing or wrong")


async def read_body(chunks: AsyncIterator[bytes], *, limit: int = LARGEST_BODY_BYTES) -> bytes:
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
    enabled = require_keys(value, "the body", needed=frozenset({"enabled"}), optional=frozenset())["enabled"]
    if not isinstance(enabled, bool):
        raise Refusal(Reason.MALFORMED, "enabled must be true or false")
    return enabled


def _read_token(token_file: Path | None) -> bytes:
    if token_file is None:
        return b""
    try:
        return token_file.read_bytes().strip()
    except OSError:
        return b""


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
