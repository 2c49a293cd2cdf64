"""Counters of a vLLM engine, and a Prometheus that answers whatever a test wants."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from outrider.runtimes.metrics import MIXED, PLUGIN_CELLS, PLUGIN_EPOCH, CellCounter, CellSeries
from outrider.runtimes.vllm import metrics as names
from outrider.telemetry.series import PodKey, PodSeries, Sample, SeriesKey
from outrider_engine.counting.measure import CellSums

ALL_COUNTERS = (
    *names.DIALECT.counters.values(),
    *(names.DIALECT.at_position(position) for position in range(5)),
    names.REQUESTS_WAITING,
    names.KV_USAGE,
)


@dataclass
class Counters:
    """What a pod would expose; `ran` moves it on."""

    values: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ALL_COUNTERS, 0.0))

    def ran(
        self,
        *,
        steps: float = 100,
        batch: float = 8,
        k: int = 3,
        accepted: float = 1.5,
        step_seconds: float = 0.02,
        each: float | None = None,
    ) -> Counters:
        """Some decode steps. accepted: mean accepted tokens per draft, as many at each position.

        each: acceptance of each position, given that the one before was accepted; in place of `accepted`.
        """
        survival = [accepted / k if each is None else each ** (position + 1) for position in range(k)]
        accepted = sum(survival)
        requests = steps * batch
        new = dict(self.values)
        new[names.ENGINE_STEPS] += steps
        new[names.REQUEST_STEPS] += requests
        new[names.DECODE_SECONDS] += requests * step_seconds
        new[names.GENERATED_TOKENS] += requests * (1 + accepted)
        if k:
            new[names.DRAFTS] += requests
            new[names.DRAFT_TOKENS] += requests * k
            new[names.ACCEPTED_TOKENS] += requests * accepted
            for position, share in enumerate(survival):
                new[names.DIALECT.at_position(position)] += requests * share
        return Counters(new)

    def prefilled(self, *, requests: float = 4, prompt_tokens: float = 400) -> Counters:
        """Prompts that joined running steps; each gives its first token."""
        new = dict(self.values)
        new[names.FIRST_TOKENS] += requests
        new[names.GENERATED_TOKENS] += requests
        new[names.PROMPT_TOKENS] += prompt_tokens
        return Counters(new)


def a_series(*scrapes: tuple[float, Counters], without: tuple[str, ...] = ()) -> PodSeries:
    """Samples of every counter at the given times."""
    return {
        name: tuple(Sample(at, counters.values[name]) for at, counters in scrapes)
        for name in ALL_COUNTERS
        if name not in without
    }


def a_row(
    name: str = names.GENERATED_TOKENS,
    *,
    values: list[list[object]] | None = None,
    pod: str = "a",
    **labels: str,
) -> dict[str, object]:
    """One series of a range vector."""
    metric = {
        "__name__": name,
        "namespace": "default",
        "pod": pod,
        "job": "engines",
        "instance": f"{pod}:8000",
    }
    return {"metric": {**metric, **labels}, "values": values or [[1.0, "1"], [2.0, "2"]]}


def an_answer(*rows: dict[str, object], status: str = "success") -> bytes:
    """A range vector as Prometheus sends it."""
    return json.dumps({"status": status, "data": {"resultType": "matrix", "result": list(rows)}}).encode()


BATCH = {1: "1", 7: "7-12", 25: "25+"}
"""Smallest batch of a bin -> the plugin's label."""


@dataclass
class PluginCounters:
    """What the plugin would expose beside vLLM's own counters; `ran` moves it on."""

    values: dict[CellSeries, float] = field(default_factory=dict)

    def ran(
        self,
        *,
        low: int = 7,
        k: int | None = 3,
        drafted: int = 3,
        steps: float = 100,
        batch: float = 8,
        accepted: float = 1.5,
        step_seconds: float = 0.02,
        prefill: float = 0,
        context: float = 500,
    ) -> PluginCounters:
        """Steps of one bin and K; k None: mixed. drafted: positions, for K > 0."""
        new = dict(self.values)
        length = drafted if k is None else k
        requests = steps * batch
        added: dict[tuple[str, int | None], float] = {
            (PLUGIN_CELLS[CellCounter.STEPS], None): steps,
            (PLUGIN_CELLS[CellCounter.SECONDS], None): steps * step_seconds,
            (PLUGIN_CELLS[CellCounter.REQUESTS], None): requests,
            (PLUGIN_CELLS[CellCounter.EMITTED], None): requests * (1 + (accepted if length else 0)),
            (PLUGIN_CELLS[CellCounter.PREFILL], None): prefill,
            (PLUGIN_CELLS[CellCounter.CONTEXT], None): requests * context,
            **{(PLUGIN_CELLS[CellCounter.VERIFIED], j): requests for j in range(length)},
            **{(PLUGIN_CELLS[CellCounter.ACCEPTED], j): requests * accepted / length for j in range(length)},
        }
        for (name, position), value in added.items():
            key = CellSeries(name, low, k, position)
            new[key] = new.get(key, 0.0) + value
        return PluginCounters(new)


def a_plugin_series(*scrapes: tuple[float, Counters, PluginCounters]) -> PodSeries:
    """Samples of vLLM's and the plugin's counters; one that does not exist yet has no sample."""
    series: dict[SeriesKey, tuple[Sample, ...]] = dict(a_series(*((at, c) for at, c, _ in scrapes)))
    series[PLUGIN_EPOCH] = tuple(Sample(at, 1.0) for at, _, _ in scrapes)
    for key in {key for _, _, plugin in scrapes for key in plugin.values}:
        series[key] = tuple(Sample(at, p.values[key]) for at, _, p in scrapes if key in p.values)
    return series


def exposition(counters: Counters, plugin: PluginCounters | None = None) -> bytes:
    """The text of /metrics, with what else vLLM exposes there."""
    lines = ["# HELP vllm:generation_tokens_total Generated tokens.", "# TYPE vllm:generation_tokens counter"]
    for name in ALL_COUNTERS:
        base, _, position = name.removesuffix("}").partition("{")
        extra = f',position="{position}"' if position else ""
        extra += ',source="local_compute"' if base == names.PROMPT_TOKENS else ""
        lines.append(f'{base}{{engine="0",model_name="tiny"{extra}}} {counters.values[name]}')
    lines.append(f'{names.PROMPT_TOKENS}{{engine="0",model_name="tiny",source="local_cache_hit"}} 7')
    lines.append('vllm:request_success_total{engine="0",model_name="tiny",finished_reason="stop"} 3')
    lines.append("some_other_metric 1")
    if plugin is not None:
        lines.append(f'{PLUGIN_EPOCH}{{model_name="tiny",engine="0"}} 4')
        lines += [_plugin_line(key, value) for key, value in plugin.values.items()]
    return "\n".join([*lines, ""]).encode()


def _plugin_line(key: CellSeries, value: float) -> str:
    k = MIXED if key.k is None else key.k
    position = "" if key.position is None else f',position="{key.position}"'
    return f'{key.name}{{model_name="tiny",engine="0",batch="{BATCH[key.low]}",k="{k}"{position}}} {value}'


Handler = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def a_server(handler: Handler, *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Real HTTP on loopback, encrypted where a context is given; the URL."""

    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            handler(self)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answering(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Handler:
    """Always the same answer."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return handle


POD = PodKey("default", "a")


def cell_sums(
    *,
    low: int = 7,
    high: int | None = 12,
    k: int | None = 3,
    steps: int = 100,
    trimmed: int = 0,
    limited: int = 0,
) -> CellSums:
    """8 requests per step; half of each position is accepted. trimmed: drafts at each position.

    limited: of the requests, those that verify one draft token at most.
    """
    length = k or 0
    others = 8 - limited
    return CellSums(
        minBatchSize=low,
        maxBatchSize=high,
        numSpeculativeTokens=k,
        steps=steps,
        stepSeconds=0.02 * steps,
        scheduledRequests=8 * steps,
        emittedTokens=8 * steps + others * steps // 2 * length + limited * steps // 2,
        prefillTokens=50,
        contextTokens=4000 * steps,
        draftTokens=[others * steps - trimmed] * length,
        trimmedTokens=[trimmed] * length,
        acceptedTokens=[others * steps // 2] * length,
        limitedRequests=[0, *[limited * steps] * 4],
        limitedDraftTokens=[limited * steps, *[0] * 4],
        limitedAcceptedTokens=[limited * steps // 2, *[0] * 4],
    )


def authorization_of(seen: list[str | None]) -> Handler:
    def handle(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers.get("Authorization"))
        answering(an_answer())(request)

    return handle
