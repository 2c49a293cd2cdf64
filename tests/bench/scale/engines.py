"""Engines under load by the thousand: schedule, lease, and counters of batch bins that move with time."""

from __future__ import annotations

import time

from aiohttp import web

from tests.attack.engines import OpenEngine

DRAFTS = (0, 1, 2, 3, 5)
EDGES = ((1, 1), (2, 3), (4, 6), (7, 12), (13, 24), (25, 48))
"""The batch bins that the load reaches, of a launch with max-num-seqs 128."""
LEVELS = (2, 5, 10, 18, 36)
"""Mean batches of the load; each engine takes the next one every minute."""
_MODEL = 'engine="0",model_name="qwen3-8b"'
_CELL = ("steps", "step_seconds", "scheduled_requests", "emitted_tokens", "prefill_tokens", "context_tokens")
_ACCEPTED = 0.7
"""Share of drafts at each position, of those that were accepted before it."""
_OTHERS = "".join(
    f'vllm:{name}_bucket{{{_MODEL},le="{edge}"}} 123456.0\n'
    for name in (
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
        "request_prompt_tokens",
        "request_generation_tokens",
        "iteration_tokens_total",
    )
    for edge in (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160, "+Inf")
)
"""Series that vLLM shows and the operator does not read."""


def _step_seconds(batch: int, k: int) -> float:
    """A step grows with the tokens that it verifies and the passes of the drafter."""
    return 0.009 + 0.00003 * batch * (k + 1) + 0.0006 * k


class BusyEngine(OpenEngine):
    """An engine that has decoded since long ago.

    model: number of its model, by which it begins with another load.
    """

    def __init__(self, name: str, *, model: int) -> None:
        super().__init__(name, captured=frozenset(DRAFTS), max_num_seqs=128)
        self.model = model
        self._counts: dict[str, float] = {}
        self._lines: dict[str, str] = {}
        self._counted_at = time.time()
        self.leased_until: float | None = None
        self.renewed_at: float | None = None
        self.first_push_at: float | None = None
        """Since `mark`."""
        self.lapses = 0
        self._slices: list[tuple[int, float]] = []
        """Of the last probe, until the page shows them: K and seconds."""
        self._probed_until = 0.0
        for low, high in EDGES:
            for k in DRAFTS:
                self._count(low, high, k, steps=10_000.0 + 10 * low + k, batch=float(low))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/metrics":
            self.metrics = self._page()
        self._end_lease()
        response = await super().handle(request)
        if request.method == "PUT" and response.status == 200:
            now, asked = time.time(), await request.json()
            self.renewed_at, self.leased_until = now, now + asked["leaseSeconds"]
            self.first_push_at = self.first_push_at or now
        return response

    def _probe(self, body: dict[str, object]) -> web.Response | None:
        self._end_probe()
        refusal = super()._probe(body)
        if refusal is None:
            slices: list[dict[str, float]] = body["slices"]  # type: ignore[assignment]
            self._slices = [(int(each["numSpeculativeTokens"]), each["seconds"]) for each in slices]
            self._probed_until = time.time() + sum(seconds for _, seconds in self._slices)
        return refusal

    def _end_probe(self) -> None:
        """End the probe where its time is over, as an engine does between two steps."""
        if self.probe is not None and self.probe["running"] and self._probed_until <= time.time():
            self.probe = {**self.probe, "running": False, "reason": "Completed"}

    def mark(self) -> None:
        """Record the next push as the first one."""
        self.first_push_at = None

    def _end_lease(self) -> None:
        if self.leased_until is not None and self.leased_until < time.time():
            self.leased_until, self.source = None, "Fallback"
            self.lapses += 1

    def look(self) -> None:
        """End the lease where it is over, as an engine does between two steps."""
        self._end_lease()

    def _page(self) -> str:
        self._end_probe()
        now = time.time()
        seconds, self._counted_at = now - self._counted_at, now
        batch = LEVELS[(int(now // 60) + self.model) % len(LEVELS)]
        low, high = next(edge for edge in EDGES if edge[0] <= batch <= edge[1])
        k = self._k(batch)
        probed, self._slices = self._slices, []
        for each, spent in [*probed, (k, max(0.0, seconds - sum(spent for _, spent in probed)))]:
            steps = float(int(0.95 * spent / _step_seconds(batch, each)))
            self._count(low, high, each, steps=steps, batch=batch)
        return _OTHERS + "".join(self._lines.values())

    def _k(self, batch: int) -> int:
        rows = self.schedule
        return next(r["numSpeculativeTokens"] for r in rows if batch <= r.get("maxBatchSize", batch))

    def _count(self, low: int, high: int, k: int, *, steps: float, batch: float) -> None:
        label = f'batch="{low if low == high else f"{low}-{high}"}",k="{k}"'
        requests = steps * batch
        accepted = [requests * _ACCEPTED ** (j + 1) for j in range(k)]
        emitted, seconds = requests + sum(accepted), steps * _step_seconds(int(batch), k)
        for name, more in zip(_CELL, (steps, seconds, requests, emitted, 0.0, requests * 800), strict=True):
            self._add(f"outrider:{name}_total", label, more)
        for j, many in enumerate(accepted):
            self._add("outrider:draft_tokens_total", f'{label},position="{j}"', requests)
            self._add("outrider:accepted_tokens_total", f'{label},position="{j}"', float(int(many)))
            self._add("vllm:spec_decode_num_accepted_tokens_per_pos_total", f'position="{j}"', many)
        self._add("vllm:iteration_tokens_total_count", "", steps)
        self._add("vllm:inter_token_latency_seconds_count", "", requests)
        self._add("vllm:time_to_first_token_seconds_count", "", 0.0)
        self._add("vllm:prompt_tokens_by_source_total", 'source="local_compute"', 0.0)
        self._add("vllm:inter_token_latency_seconds_sum", "", seconds * batch)
        self._add("vllm:generation_tokens_total", "", emitted)
        self._add("vllm:spec_decode_num_drafts_total", "", requests if k else 0.0)
        self._add("vllm:spec_decode_num_draft_tokens_total", "", requests * k)
        self._add("vllm:spec_decode_num_accepted_tokens_total", "", sum(accepted))
        self._set("outrider:epoch", float(self.epoch))
        self._set("vllm:num_requests_running", batch)
        self._set("vllm:num_requests_waiting", 0.0)
        self._set("vllm:kv_cache_usage_perc", 0.3)

    def _add(self, name: str, labels: str, more: float) -> None:
        key = f"{name}{{{_MODEL}{',' if labels else ''}{labels}}}"
        self._counts[key] = self._counts.get(key, 0.0) + more
        self._lines[key] = f"{key} {self._counts[key]!r}\n"

    def _set(self, name: str, value: float) -> None:
        self._lines[name] = f"{name}{{{_MODEL}}} {value!r}\n"
