"""Only what the operator signed for this very pod comes in, and no work is done for anything else."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from outrider.engine.signing import SigningKey
from outrider_engine.control.signature import Gate
from outrider_engine.http.request import MAX_BODY_BYTES, read_signed
from outrider_protocol.control_api import Reason, Refusal, signed_bytes
from outrider_protocol.environment import POD_UID_VARIABLE, PUBLIC_KEY_FILE_VARIABLE
from tests.unit.engine_plugin.factories import a_push

KEY = SigningKey.generate()
POD, SIBLING = "uid-of-this-pod", "uid-of-its-sibling"
SCHEDULE = "/outrider/v1/schedule"


@dataclass(frozen=True)
class Request:
    method: str = "PUT"
    path: str = SCHEDULE
    pod_uid: str = POD
    body: bytes = json.dumps(a_push(term=3, epoch=17).to_wire()).encode()

    def signed(self, key: SigningKey = KEY) -> str:
        return key.authorization(method=self.method, path=self.path, pod_uid=self.pod_uid, body=self.body)


PUSH = Request()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """That of the pod `POD`, which has all that its siblings have, too."""
    file = tmp_path / "control-key.pub"
    file.write_text(KEY.public_pem)
    return Gate(file, POD)


class Body:
    """What arrives, and how much of it was read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.content), 1000):
            chunk = self.content[start : start + 1000]
            self.read += len(chunk)
            yield chunk


async def entered(gate: Gate, arriving: Request, authorization: str | None) -> bytes:
    return await read_signed(
        aiter(Body(arriving.body)),
        gate,
        method=arriving.method,
        path=arriving.path,
        authorization=authorization,
    )


async def refused(gate: Gate, arriving: Request, authorization: str | None) -> str:
    with pytest.raises(Refusal) as refusal:
        await entered(gate, arriving, authorization)
    assert refusal.value.reason is Reason.UNAUTHORIZED
    return refusal.value.message


async def test_what_the_operator_signed_comes_in(gate: Gate) -> None:
    assert await entered(gate, PUSH, PUSH.signed()) == PUSH.body


async def test_reading_the_state_is_signed_like_a_push(gate: Gate) -> None:
    reading = Request("GET", "/outrider/v1/state", body=b"")
    assert await entered(gate, reading, reading.signed()) == b""
    await refused(gate, reading, None)


async def test_a_signature_of_another_key_is_refused(gate: Gate) -> None:
    assert "not the operator's" in await refused(gate, PUSH, PUSH.signed(SigningKey.generate()))


async def test_what_was_signed_for_a_sibling_is_refused(gate: Gate) -> None:
    await refused(gate, PUSH, replace(PUSH, pod_uid=SIBLING).signed())


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(PUSH.body), **fields}).encode()


@pytest.mark.parametrize(
    "arriving",
    [
        replace(PUSH, body=changed(term=4)),
        replace(PUSH, body=changed(epoch=18)),
        replace(PUSH, body=changed(leaseSeconds=3600)),
        replace(PUSH, body=PUSH.body + b" "),
        replace(PUSH, body=b""),
        replace(PUSH, path="/outrider/v1/probe"),
        replace(PUSH, method="POST"),
    ],
    ids=["term", "epoch", "lease", "a blank more", "no body", "path", "method"],
)
async def test_what_was_altered_on_its_way_is_refused(gate: Gate, arriving: Request) -> None:
    await refused(gate, arriving, PUSH.signed())


def flipped(number: int) -> str:
    """The signature with one bit changed."""
    scheme, _, text = PUSH.signed().partition(" ")
    raw = bytearray(base64.b64decode(text))
    raw[number // 8] ^= 1 << number % 8
    return f"{scheme} {base64.b64encode(raw).decode()}"


@given(st.integers(0, 64 * 8 - 1))
async def test_no_bit_of_the_signature_may_differ(number: int) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        file.write_text(KEY.public_pem)
        await refused(Gate(file, POD), PUSH, flipped(number))


SIGNED = PUSH.signed()
UNFIT = {
    "none": None,
    "empty": "",
    "scheme alone": SIGNED.split()[0],
    "a token": "Bearer the-secret-of-before",
    "signature alone": SIGNED.split()[1],
    "another scheme": SIGNED.replace("Outrider-Ed25519", "Outrider-Rsa4096"),
    "no base64": SIGNED[:-10] + "!" * 10,
    "no ascii": SIGNED[:-1] + "ü",
    "url-safe base64": f"{SIGNED[:-4]}-_==",
    "short": SIGNED[:-4],
    "one byte less": SIGNED[:-4] + "====",
    "one more": SIGNED + "A",
    "twice": f"{SIGNED} {SIGNED}",
    "two blanks": SIGNED.replace(" ", "  "),
    "over-long": SIGNED + "A" * 1_000_000,
}


@pytest.mark.parametrize("authorization", UNFIT.values(), ids=UNFIT)
async def test_a_header_that_is_no_signature_is_refused_before_the_body_is_read(
    gate: Gate, authorization: str | None
) -> None:
    body = Body(PUSH.body)
    with pytest.raises(Refusal) as refusal:
        await read_signed(aiter(body), gate, method="PUT", path=SCHEDULE, authorization=authorization)
    assert refusal.value.reason is Reason.UNAUTHORIZED
    assert body.read == 0
    assert len(refusal.value.message) < 200


async def test_no_more_of_a_body_is_read_than_a_signed_one_may_have(gate: Gate) -> None:
    body = Body(b"x" * 10 * MAX_BODY_BYTES)
    with pytest.raises(Refusal) as refusal:
        await read_signed(aiter(body), gate, method="PUT", path=SCHEDULE, authorization=SIGNED)
    assert refusal.value.reason is Reason.TOO_LARGE
    assert body.read <= MAX_BODY_BYTES + 1000


async def test_a_new_public_key_counts_at_once(gate: Gate) -> None:
    new = SigningKey.generate()
    assert gate.public_key_file is not None
    gate.public_key_file.write_text(new.public_pem)
    await refused(gate, PUSH, PUSH.signed())
    assert await entered(gate, PUSH, PUSH.signed(new)) == PUSH.body


OTHER_KIND = generate_private_key(SECP256R1()).public_key()


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\xff" * 40,
        KEY.private_pem.encode(),
        OTHER_KIND.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ],
    ids=["no file", "empty", "bytes", "a private key", "not ed25519"],
)
async def test_an_engine_without_a_public_key_takes_no_request(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    assert "public key" in await refused(Gate(file, POD), PUSH, SIGNED)


async def test_an_engine_that_does_not_know_its_pod_takes_no_request(gate: Gate) -> None:
    nobody = replace(PUSH, pod_uid="")
    assert "UID" in await refused(replace(gate, pod_uid=""), nobody, nobody.signed())


async def test_an_engine_that_was_told_nothing_takes_no_request() -> None:
    await refused(Gate.of({}), PUSH, SIGNED)


async def test_the_environment_says_whose_requests_are_taken(gate: Gate) -> None:
    told = {PUBLIC_KEY_FILE_VARIABLE: str(gate.public_key_file), POD_UID_VARIABLE: POD}
    assert Gate.of(told) == gate


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
fields = st.tuples(texts, texts, texts, st.binary(max_size=40))
looks_like_fields = st.lists(st.sampled_from(["a", "1:a,", "0:,", ",", ":", "1", "é"]), max_size=3).map(
    "".join
)
tricky = st.tuples(looks_like_fields, looks_like_fields, looks_like_fields, st.binary(max_size=2))


@given(st.one_of(fields, tricky), st.one_of(fields, tricky))
def test_no_two_requests_have_the_same_bytes(
    one: tuple[str, str, str, bytes], other: tuple[str, str, str, bytes]
) -> None:
    assert (bytes_of(*one) == bytes_of(*other)) == (one == other)


def bytes_of(method: str, path: str, pod_uid: str, body: bytes) -> bytes:
    return signed_bytes(method=method, path=path, pod_uid=pod_uid, body=body)


def test_the_bytes_are_those_of_the_reference() -> None:
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert bytes_of("GET", "/outrider/v1/state", "u-1", b"") == (
        f"18:outrider-control-1,3:GET,18:/outrider/v1/state,3:u-1,64:{digest},".encode()
    )
