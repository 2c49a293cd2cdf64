"""Models that are stored and never run, and waiting for what becomes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tests.cluster.kubectl import Object
from tests.lifecycle.api_server import ApiServer

KIND = "speculativemodel"
SPEC: dict[str, Any] = {
    "model": {"uri": "hf://org/model"},
    "speculation": {"method": "ngram", "numSpeculativeTokens": 3},
    "engine": {"runtime": "vLLM", "version": "0.32.0", "image": "engine:x"},
    "rollout": {"maxUnavailable": 1},
}
SECONDS = 120.0
"""On a quiet machine nothing takes a fifth of it."""


def a_model(name: str = "m", *, namespace: str = "default", **spec: Any) -> Object:
    """spec: in place of what is in SPEC."""
    kind = {"apiVersion": "outrider.dev/v1alpha1", "kind": "SpeculativeModel"}
    return {**kind, "metadata": {"name": name, "namespace": namespace}, "spec": {**SPEC, **spec}}


def is_taken(server: ApiServer, manifest: Object) -> bool:
    """Whether the API server stores it: a definition takes a moment to be in force."""
    try:
        server.apply(manifest)
    except AssertionError:
        return False
    return True


def eventually(what: str, look: Callable[[], bool], *, seconds: float = SECONDS) -> None:
    """Look again until it is so."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)


async def eventually_so(what: str, look: Callable[[], bool]) -> None:
    """The same, while other work continues in this process."""
    await asyncio.to_thread(eventually, what, look)
