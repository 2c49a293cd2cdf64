"""Signatures of the operator's requests to an engine's control API.

Every model has a key pair. The private key is in a Secret that no pod mounts; engines have the public key.
`outrider_engine.control.signature` checks them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from outrider_protocol.control_api import SCHEME, signed_bytes


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private key of one model. Its repr does not show it."""

    _key: Ed25519PrivateKey = field(repr=False, compare=False)
    public_pem: str = field(repr=False)

    @classmethod
    def generate(cls) -> SigningKey:
        """Generate a new key."""
        return cls._of(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, pem: bytes) -> SigningKey:
        """Parse the output of `private_pem`.

        Raises:
            ValueError: not a private key of Ed25519, or one that needs a password.
        """
        try:
            key = load_pem_private_key(pem, password=None)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError(f"not a readable private key: {type(error).__name__}") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("not a private key of Ed25519")
        return cls._of(key)

    @classmethod
    def _of(cls, key: Ed25519PrivateKey) -> SigningKey:
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return cls(key, public.decode())

    @property
    def private_pem(self) -> str:
        """Return the key in the form of the model's Secret."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def authorization(self, *, method: str, path: str, pod_uid: str, body: bytes) -> str:
        """Return the header that authorises one request at one pod."""
        signature = self._key.sign(signed_bytes(method=method, path=path, pod_uid=pod_uid, body=body))
        return f"{SCHEME} {base64.b64encode(signature).decode()}"
