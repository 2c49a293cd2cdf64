"""Who may use the control API of a pod: the holder of the private key, with a signature for this pod.

A pod holds the public key only. So a compromised pod cannot sign, and a signature for one pod is invalid at
any other.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from outrider_protocol.control_api import SCHEME, Reason, Refusal, signed_bytes
from outrider_protocol.environment import POD_UID_VARIABLE, PUBLIC_KEY_FILE_VARIABLE

_HEADER_LENGTH = len(f"{SCHEME} ") + 88
"""64 bytes in Base64."""


def read_signature(authorization: str | None) -> bytes:
    """The signature of a header ``Authorization: Outrider-Ed25519 <Base64>``; it may still be wrong.

    Raises:
        Refusal: `Reason.UNAUTHORIZED`.
    """
    if authorization is None:
        raise _refusal("the request is not signed")
    scheme, _, text = authorization[: _HEADER_LENGTH + 1].partition(" ")
    try:
        signature = base64.b64decode(text, validate=True)
    except ValueError:
        signature = b""
    if scheme != SCHEME or len(authorization) != _HEADER_LENGTH or len(signature) != 64:
        raise _refusal(f"the header Authorization is not `{SCHEME}` and a signature in Base64")
    return signature


@dataclass(frozen=True, slots=True)
class Gate:
    """The keys by which a pod accepts requests.

    public_key_file: PEM; read for each request, so it may change.
    """

    public_key_file: Path | None
    pod_uid: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Gate:
        """The gate of the pod's environment. Without a key or a UID it refuses every request."""
        file = environment.get(PUBLIC_KEY_FILE_VARIABLE)
        return cls(Path(file) if file else None, environment.get(POD_UID_VARIABLE, ""))

    def admit(self, signature: bytes, *, method: str, path: str, body: bytes) -> None:
        """Accept a request that was signed for this pod.

        Raises:
            Refusal: `Reason.UNAUTHORIZED`.
        """
        if not self.pod_uid:
            raise _refusal("the engine does not know the UID of its pod, so it takes no request")
        key = self._public_key()
        try:
            key.verify(signature, signed_bytes(method=method, path=path, pod_uid=self.pod_uid, body=body))
        except InvalidSignature as error:
            raise _refusal("the signature is not the operator's for this request to this pod") from error

    def _public_key(self) -> Ed25519PublicKey:
        try:
            key = load_pem_public_key(self.public_key_file.read_bytes() if self.public_key_file else b"")
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            raise _refusal("the engine has no public key, so it takes no request") from error
        if not isinstance(key, Ed25519PublicKey):
            raise _refusal("the engine's public key is not of Ed25519, so it takes no request")
        return key


def _refusal(message: str) -> Refusal:
    return Refusal(Reason.UNAUTHORIZED, message)
