"""The plugin's metrics in Prometheus' text form, added to the engine's own ``/metrics``.

The sums live in the engine core, and every API server process reports the same ones. No process keeps them in
its registry. Each scrape asks the engine core and adds the answer to vLLM's text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outrider_engine.control.state import Measurement
from outrider_engine.counting.measure import CellSums
from outrider_engine.http.asgi import App, Message, Receive, Scope, Send
from outrider_protocol.bins import Bin, batch_bins

ENGINE = ["model_name", "engine"]
MIXED = "mixed"

SUMS: dict[str, tuple[str, Callable[[CellSums], float]]] = {
    "steps": ("Engine steps.", lambda cell: cell["steps"]),
    "step_seconds": ("Engine time, without idle time.", lambda cell: cell["stepSeconds"]),
    "scheduled_requests": (
        "Scheduled requests, summed over steps.",
        lambda cell: cell["scheduledRequests"],
    ),
    "emitted_tokens": ("Generated tokens.", lambda cell: cell["emittedTokens"]),
    "prefill_tokens": (
        "Computed prompt tokens, also after a preemption.",
        lambda cell: cell["prefillTokens"],
    ),
    "context_tokens": (
        "Tokens of the scheduled requests in the KV cache, summed over steps.",
        lambda cell: cell["contextTokens"],
    ),
}
POSITIONS: dict[str, tuple[str, Callable[[CellSums], Sequence[int]]]] = {
    "draft_tokens": ("Verified draft tokens per position.", lambda cell: cell["draftTokens"]),
    "accepted_tokens": ("Accepted draft tokens per position.", lambda cell: cell["acceptedTokens"]),
}


def render(measurements: Sequence[Measurement], *, model_name: str) -> bytes:
    """The metrics of all engine cores behind a server, in the text format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(list(_families(measurements, model_name))))
    return generate_latest(registry)


def render_silence(seconds: float) -> bytes:
    """The silence of the core, as one API server sees it; so it has no labels."""
    registry = CollectorRegistry(auto_describe=False)
    text = "Seconds for which the engine core has not answered this server."
    registry.register(_Families([GaugeMetricFamily("outrider:core_silent_seconds", text, value=seconds)]))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(measurements: Sequence[Measurement], model_name: str) -> Iterable[Metric]:
    engines = [([model_name, str(index)], found) for index, found in enumerate(measurements)]
    cells = [
        ([*engine, _label(cell), _k(cell)], cell) for engine, found in engines for cell in found["cells"]
    ]
    for name, (text, value) in SUMS.items():
        counter = CounterMetricFamily(f"outrider:{name}", text, labels=[*ENGINE, "batch", "k"])
        for labels, cell in cells:
            counter.add_metric(labels, value(cell))
        yield counter
    for name, (text, values) in POSITIONS.items():
        counter = CounterMetricFamily(f"outrider:{name}", text, labels=[*ENGINE, "batch", "k", "position"])
        for labels, cell in cells:
            # A position that was never drafted has no sample: 0 would mean that nothing was accepted.
            for position, (drafted, tokens) in enumerate(zip(cell["draftTokens"], values(cell), strict=True)):
                if drafted or tokens:
                    counter.add_metric([*labels, str(position)], tokens)
        yield counter
    yield from _engine_families(engines)
    yield from _fast_loop_families(engines)


def _engine_families(engines: list[tuple[list[str], Measurement]]) -> Iterable[Metric]:
    hooks = CounterMetricFamily("outrider:hook_seconds", "Time in the plugin's step hooks.", labels=ENGINE)
    failures = CounterMetricFamily(
        "outrider:hook_failures", "Hooks that failed and are disabled.", labels=ENGINE
    )
    skipped = CounterMetricFamily(
        "outrider:drafter_steps_skipped", "Steps with K=0 that skipped the drafter.", labels=ENGINE
    )
    caught_up = CounterMetricFamily(
        "outrider:drafter_tokens_caught_up",
        "Tokens that the drafter missed and processed later.",
        labels=ENGINE,
    )
    table = GaugeMetricFamily(
        "outrider:num_speculative_tokens",
        "K of the schedule in force at the lower edge of the bin.",
        labels=[*ENGINE, "batch"],
    )
    gauges = {
        name: GaugeMetricFamily(f"outrider:{name}", text, labels=ENGINE)
        for name, text in {
            "lease_remaining_seconds": "Seconds until the static schedule returns; 0 without a lease.",
            "term": "Term of the last accepted push.",
            "epoch": "Epoch of the last accepted push.",
            "live_tuning": "1 while the schedule can change.",
            "probe_running": "1 while a probe runs.",
            "longest_step_seconds": "The longest step since the engine started; a push may wait as long.",
            "startup_profile_cells": "Cells of the startup profile.",
        }.items()
    }
    for labels, found in engines:
        state = found["state"]
        hooks.add_metric(labels, found["hookSeconds"])
        failures.add_metric(labels, found["hookFailures"])
        skipped.add_metric(labels, found["drafterStepsSkipped"])
        caught_up.add_metric(labels, found["drafterTokensCaughtUp"])
        gauges["lease_remaining_seconds"].add_metric(labels, state["leaseRemainingSeconds"] or 0.0)
        gauges["term"].add_metric(labels, state["term"])
        gauges["epoch"].add_metric(labels, state["epoch"])
        gauges["live_tuning"].add_metric(labels, float(state["liveTuning"]["possible"]))
        probe = state["probe"]
        gauges["probe_running"].add_metric(labels, float(probe is not None and probe["running"]))
        gauges["longest_step_seconds"].add_metric(labels, found["longestStepSeconds"])
        gauges["startup_profile_cells"].add_metric(labels, len(found["stepTimes"]))
        lookup = found["lookup"]
        for batch in batch_bins(len(lookup) - 1) if lookup else ():
            table.add_metric([*labels, batch.label], (lookup or [])[batch.low])
    yield from (hooks, failures, skipped, caught_up, table, *gauges.values())


def _fast_loop_families(engines: list[tuple[list[str], Measurement]]) -> Iterable[Metric]:
    active = GaugeMetricFamily("outrider:fast_loop_active", "1 while the fast loop chooses K.", labels=ENGINE)
    looks = CounterMetricFamily(
        "outrider:fast_loop_looks", "Steps that drafted only to see the acceptance.", labels=ENGINE
    )
    look_seconds = CounterMetricFamily(
        "outrider:fast_loop_look_seconds", "Engine time of these steps.", labels=ENGINE
    )
    hooks = CounterMetricFamily(
        "outrider:fast_loop_hook_seconds", "Time that the fast loop took inside of steps.", labels=ENGINE
    )
    changes = CounterMetricFamily(
        "outrider:fast_loop_changes", "Changes of K by the fast loop.", labels=[*ENGINE, "reason"]
    )
    steps = CounterMetricFamily(
        "outrider:fast_loop_steps", "Engine steps in which the fast loop chose K.", labels=[*ENGINE, "k"]
    )
    seconds = CounterMetricFamily(
        "outrider:fast_loop_step_seconds", "Engine time of these steps.", labels=[*ENGINE, "k"]
    )
    for labels, found in engines:
        loop = found["state"]["fastLoop"]
        active.add_metric(labels, float(loop["active"]))
        looks.add_metric(labels, loop["looks"])
        look_seconds.add_metric(labels, loop["lookSeconds"])
        hooks.add_metric(labels, loop["hookSeconds"])
        for reason, count in loop["changes"].items():
            changes.add_metric([*labels, reason], count)
        for sums in loop["steps"]:
            of_k = [*labels, str(sums["numSpeculativeTokens"])]
            steps.add_metric(of_k, sums["steps"])
            seconds.add_metric(of_k, sums["seconds"])
    yield from (active, looks, look_seconds, hooks, changes, steps, seconds)


def _label(cell: CellSums) -> str:
    return Bin(cell["minBatchSize"], cell["maxBatchSize"]).label


def _k(cell: CellSums) -> str:
    k = cell["numSpeculativeTokens"]
    return MIXED if k is None else str(k)


class MetricsMiddleware:
    """Adds text to the answer of ``GET /metrics``; any other request passes.

    text: returns the text to add; empty for none. Must not raise.
    """

    def __init__(self, app: App, *, text: Callable[[], Awaitable[bytes]]) -> None:
        self._app = app
        self._text = text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if not _asks_for_metrics(scope):
            return await self._app(scope, receive, send)
        text = await self._text()
        # Text cannot be added to a compressed answer, so none is requested.
        headers = [pair for pair in scope["headers"] if pair[0].lower() != b"accept-encoding"]
        answer = _Answer(send, text)
        return await self._app({**scope, "headers": headers}, receive, answer.send)


class _Answer:
    """Delays the start of an answer until its length is known."""

    def __init__(self, send: Send, text: bytes) -> None:
        self._send = send
        self._text = text
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        if _is_text(self._start):
            self._body += self._text
        headers = [pair for pair in self._start["headers"] if pair[0].lower() != b"content-length"]
        headers.append((b"content-length", str(len(self._body)).encode()))
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": bytes(self._body)})


def _asks_for_metrics(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.rstrip("/") == "/metrics"


def _is_text(start: Message) -> bool:
    """Whether lines may follow: OpenMetrics has an end mark."""
    kinds = [value for name, value in start["headers"] if name.lower() == b"content-type"]
    return start["status"] == 200 and any(kind.startswith(b"text/plain") for kind in kinds)
