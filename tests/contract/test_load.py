"""Tables change under load, and no request notices."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.contract.engine import CANDIDATES, Engine, completion_body
from tests.contract.factories import a_constant, a_push

pytestmark = pytest.mark.contract

STREAMS = 8
REQUESTS_PER_STREAM = 3
TOKENS = 64


def one_stream(engine: Engine, name: int, enough: threading.Event) -> list[tuple[str, int]]:
    """How each request of a stream ended, and with how many tokens. It asks until enough was pushed."""
    ends = list[tuple[str, int]]()
    while len(ends) < REQUESTS_PER_STREAM or not enough.is_set():
        ends.append(stream_one_request(engine, prompt=f"def f{name}(x{len(ends)}):\n"))
    return ends


def stream_one_request(engine: Engine, *, prompt: str) -> tuple[str, int]:
    body = completion_body(TOKENS, prompt, stream=True) | {"stream_options": {"include_usage": True}}
    finish, tokens = "", 0
    with engine.client() as client, client.stream("POST", "/v1/completions", json=body) as response:
        response.raise_for_status()
        for event in events(response.iter_lines()):
            finish = next((c["finish_reason"] for c in event["choices"] if c["finish_reason"]), finish)
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    return finish, tokens


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def push_until_done(
    engine: Engine, term: int, streams: list[Future[list[tuple[str, int]]]], enough: threading.Event
) -> list[float]:
    """Push every candidate in turn while the streams run; the seconds that each push took.

    enough: set once each candidate was pushed. Streams end no earlier.
    """
    seconds: list[float] = []
    with engine.client() as client:
        while not all(stream.done() for stream in streams):
            epoch = len(seconds) + 1
            table = a_constant(CANDIDATES[epoch % len(CANDIDATES)])
            started = time.perf_counter()
            answer = client.put("/outrider/v1/schedule", json=a_push(term=term, epoch=epoch, schedule=table))
            seconds.append(time.perf_counter() - started)
            assert (answer.status_code, answer.json()["schedule"]) == (200, table)
            if len(seconds) >= len(CANDIDATES):
                enough.set()
    return seconds


def test_no_request_fails_while_tables_change(engine: Engine, term: int) -> None:
    enough = threading.Event()
    with ThreadPoolExecutor(STREAMS) as pool:
        streams = [pool.submit(one_stream, engine, name, enough) for name in range(STREAMS)]
        try:
            seconds = push_until_done(engine, term, streams, enough)
        finally:
            enough.set()
    ends = [end for stream in streams for end in stream.result()]
    assert len(ends) >= STREAMS * REQUESTS_PER_STREAM
    assert set(ends) == {("length", TOKENS)}
    report_latency(seconds)


def report_latency(seconds: list[float]) -> None:
    figures = {
        "streams": STREAMS,
        "pushes": len(seconds),
        "p50_ms": round(1e3 * statistics.median(seconds), 1),
        "p99_ms": round(1e3 * statistics.quantiles(seconds, n=100)[98], 1),
    }
    report = Path("out/contract/put-latency.json")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(figures) + "\n")
    print(figures)
