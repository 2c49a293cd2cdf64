"""Probes of engines under load, and what an engine says of the latest one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import httpx

from tests.contract.engine import Engine
from tests.contract.measuring import run_streams

STREAMS = 4
BIN = {"minBatchSize": 4, "maxBatchSize": 6}


def a_probe(term: int, name: str, *slices: Mapping[str, float], **overrides: object) -> dict[str, object]:
    """A probe of the bin that the streams fill."""
    return {
        "term": term,
        "epoch": 1,
        "id": name,
        **BIN,
        "slices": list(slices),
        "deadlineSeconds": 300,
        **overrides,
    }


def post(engine: Engine, body: dict[str, object]) -> httpx.Response:
    with engine.client() as client:
        return client.post("/outrider/v1/probe", json=body)


def probe_of(engine: Engine) -> dict[str, Any]:
    probe = engine.state()["probe"]
    assert isinstance(probe, dict)
    return probe


@contextmanager
def loaded(engine: Engine, *, tokens: int = 96) -> Iterator[None]:
    """Streams for as long as the block runs. tokens: of each request."""
    over = Event()

    def one_after_another() -> None:
        while not over.is_set():
            run_streams(engine, streams=STREAMS, requests=1, max_tokens=tokens)

    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(one_after_another)
        try:
            yield
        finally:
            over.set()
        load.result()
