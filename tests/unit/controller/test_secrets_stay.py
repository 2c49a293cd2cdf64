"""Nothing that an operator writes, logs or shows holds a private key."""

from __future__ import annotations

import base64
import json
import logging

import pytest
from prometheus_client import generate_latest

from outrider.cluster.resources import DEPLOYMENTS, SECRETS
from outrider.engine.signing import SigningKey
from outrider.plan.names import PRIVATE_KEY, control_secret
from tests.spellings import places
from tests.unit.controller.cluster_server import ClusterServer, until
from tests.unit.controller.full_metrics import full_metrics
from tests.unit.controller.operators import an_operator

pytestmark = pytest.mark.usefixtures("quick_operators")

KEY = SigningKey.generate().private_pem.encode()


def written_by(server: ClusterServer) -> dict[str, str]:
    """All objects but Secrets, by their paths."""
    return {path: json.dumps(raw) for path, raw in server.objects.items() if "/secrets/" not in path}


async def test_a_private_key_is_in_its_secret_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with an_operator(None) as server:
        secret = control_secret("m")
        await until(lambda: server.find(SECRETS, secret) and server.find(DEPLOYMENTS, "m"))
        found = server.find(SECRETS, secret)
        assert found is not None
        key = base64.b64decode(found["data"][PRIVATE_KEY])
        written = written_by(server)

    assert SigningKey.read(key)
    shown = {"log": caplog.text, "metrics": generate_latest(full_metrics().registry).decode()}
    assert places(key, written | shown) == []
    # The search finds what is there: the public key is in a ConfigMap.
    assert places(SigningKey.read(key).public_pem.encode(), written)


@pytest.mark.parametrize(
    "text",
    [
        KEY.decode(),
        json.dumps({"key": KEY.decode()}),
        base64.b64encode(KEY).decode(),
        KEY.decode().splitlines()[1],
        f"  {KEY.decode().splitlines()[1][:32]}\n  {KEY.decode().splitlines()[1][32:]}",
        KEY.hex(),
    ],
    ids=["as it is", "in JSON", "as in a Secret", "one line of it", "folded", "in hexadecimal"],
)
def test_a_key_that_was_written_down_is_found_in_any_form(text: str) -> None:
    assert places(KEY, {"log": f"before {text} after"}) == ["log"]


def test_what_is_no_secret_is_not_taken_for_one() -> None:
    assert places(KEY, {"log": SigningKey.generate().private_pem}) == []
