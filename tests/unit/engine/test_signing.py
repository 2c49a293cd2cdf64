"""Keys that sign requests: what is read as one, and what is seen of one."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from outrider.engine.signing import SigningKey


def of_another_kind() -> bytes:
    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def with_a_password() -> bytes:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def of_an_unknown_curve() -> bytes:
    """PKCS8 with an elliptic curve 1.2.3.4."""
    curve = bytes.fromhex("06072a8648ce3d020106032a0304")
    inner = bytes.fromhex("0201010404") + b"\1\1\1\1"
    key = b"\x30" + bytes([len(inner)]) + inner
    parts = bytes.fromhex("020100") + b"\x30" + bytes([len(curve)]) + curve
    parts += b"\x04" + bytes([len(key)]) + key
    text = base64.b64encode(b"\x30" + bytes([len(parts)]) + parts)
    return b"-----BEGIN PRIVATE KEY-----\n" + text + b"\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("written", [of_another_kind, with_a_password, of_an_unknown_curve, bytes])
def test_what_is_no_open_key_of_ed25519_is_refused(written: Callable[[], bytes]) -> None:
    with pytest.raises(ValueError, match=r"key|PEM"):
        SigningKey.read(written())


def test_a_key_is_read_as_it_was_written() -> None:
    key = SigningKey.generate()
    assert SigningKey.read(key.private_pem.encode()) == key != SigningKey.generate()


def test_a_key_shows_nothing_of_itself() -> None:
    assert repr(SigningKey.generate()) == "SigningKey()"
