"""The plugin's metrics in Prometheus' text form, added to the engine's own ``/metrics``.

The sums live in the engine core, and every API server process reports the same ones. No process keeps them in
its registry. Each scrape asks the engine core and adds the answer to vLLM's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outrider_engine.control.state import Measurement
from outrider_engine.counting.measure import CellSums
from outrider_protocol.bins import Bin, batch_bins

MIXED = "mixed"

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""Values with those of the labels that are beside the model's and the engine's."""


_Positions: TypeAlias = Callable[[CellSums], Sequence[int]]
_VERIFIED: _Positions = itemgetter("draftTokens")
_TRIMMED: _Positions = itemgetter("trimmedTokens")
_ACCEPTED: _Positions = itemgetter("acceptedTokens")
_LIMITED: _Positions = itemgetter("limitedRequests")
_LIMITED_DRAFTS: _Positions = itemgetter("limitedDraftTokens")
_LIMITED_ACCEPTED: _Positions = itemgetter("limitedAcceptedTokens")


class Family(NamedTuple):
    """One family of metrics. labels: beside the model's and the engine's."""

    kind: type[CounterMetricFamily | GaugeMetricFamily]
    name: str
    text: str
    samples: Callable[[Measurement], Samples]
    labels: tuple[str, ...] = ()


def _of_cells(name: str, text: str, key: str) -> Family:
    def samples(found: Measurement) -> Samples:
        return (((_label(cell), _k(cell)), _at(cell, key)) for cell in found["cells"])

    return Family(CounterMetricFamily, name, text, samples, ("batch", "k"))


def _of_positions(name: str, text: str, *, tokens: _Positions, since: _Positions) -> Family:
    """tokens: the values. since: a position has a sample from its first token here, and none before."""

    def samples(found: Measurement) -> Samples:
        for cell in found["cells"]:
            for position, (begun, value) in enumerate(zip(since(cell), tokens(cell), strict=True)):
                if begun:
                    yield (_label(cell), _k(cell), str(position)), value

    return Family(CounterMetricFamily, name, text, samples, ("batch", "k", "position"))


def _counter(name: str, text: str, *path: str) -> Family:
    return Family(CounterMetricFamily, name, text, lambda found: [((), _at(found, *path))])


def _gauge(name: str, text: str, *path: str) -> Family:
    return Family(GaugeMetricFamily, name, text, lambda found: [((), _at(found, *path))])


def _at(found: Any, *path: str) -> float:
    """A number of the measurement; 0 where there is none."""
    for key in path:
        found = found and found[key]
    return float(found or 0)


def _schedule(found: Measurement) -> Samples:
    lookup = found["lookup"]
    if lookup is not None:
        yield from (((batch.label,), lookup[batch.low]) for batch in batch_bins(len(lookup) - 1))


def _changes(found: Measurement) -> Samples:
    return (((reason,), count) for reason, count in found["state"]["fastLoop"]["changes"].items())


def _by_k(key: str) -> Callable[[Measurement], Samples]:
    return lambda found: (
        ((str(sums["numSpeculativeTokens"]),), _at(sums, key)) for sums in found["state"]["fastLoop"]["steps"]
    )


def _of_adapters(name: str, text: str, key: str) -> Family:
    def samples(found: Measurement) -> Samples:
        return (((sums["adapter"],), _at(sums, key)) for sums in found["adapters"])

    return Family(CounterMetricFamily, name, text, samples, ("adapter",))


_LOOP = "state", "fastLoop"
_TABLE = "K of the schedule in force at the lower edge of the bin."
_CHOSEN = "Engine steps in which the fast loop chose K."

FAMILIES = (
    _of_cells("steps", "Engine steps.", "steps"),
    _of_cells("step_seconds", "Engine time, without idle time.", "stepSeconds"),
    _of_cells("scheduled_requests", "Scheduled requests, summed over steps.", "scheduledRequests"),
    _of_cells("emitted_tokens", "Generated tokens.", "emittedTokens"),
    _of_cells("prefill_tokens", "Computed prompt tokens, also after a preemption.", "prefillTokens"),
    _of_cells(
        "context_tokens",
        "Tokens of the scheduled requests in the KV cache, summed over steps.",
        "contextTokens",
    ),
    _of_positions("draft_tokens", "Verified draft tokens per position.", tokens=_VERIFIED, since=_VERIFIED),
    _of_positions(
        "trimmed_draft_tokens",
        "Draft tokens per position that adaptive verification left unverified.",
        tokens=_TRIMMED,
        since=_TRIMMED,
    ),
    # Without verified drafts an accepted 0 would mean that all were rejected.
    _of_positions(
        "accepted_tokens", "Accepted draft tokens per position.", tokens=_ACCEPTED, since=_VERIFIED
    ),
    _of_positions(
        "limited_requests",
        "Scheduled requests whose K limit leaves the position out, summed over steps.",
        tokens=_LIMITED,
        since=_LIMITED,
    ),
    _of_positions(
        "limited_draft_tokens",
        "Verified draft tokens per position of requests that verify fewer than others, by their K limit.",
        tokens=_LIMITED_DRAFTS,
        since=_LIMITED_DRAFTS,
    ),
    _of_positions(
        "limited_accepted_tokens",
        "Accepted draft tokens per position of these requests.",
        tokens=_LIMITED_ACCEPTED,
        since=_LIMITED_DRAFTS,
    ),
    Family(
        CounterMetricFamily,
        "request_limits",
        "Requests that asked for a K limit, by what became of it.",
        lambda found: [((outcome,), count) for outcome, count in found["requestLimits"].items()],
        ("outcome",),
    ),
    Family(
        CounterMetricFamily,
        "limit_rule_requests",
        "Requests that met a limit rule, by its name.",
        lambda found: [((rule,), count) for rule, count in found["requestsByRule"].items()],
        ("rule",),
    ),
    _counter("withheld_draft_tokens", "Draft tokens that K limits left unverified.", "withheldDraftTokens"),
    _of_adapters("adapter_drafts", "Verified drafts by LoRA adapter, one per request and step.", "drafts"),
    _of_adapters("adapter_draft_tokens", "Verified draft tokens by LoRA adapter.", "draftTokens"),
    _of_adapters("adapter_accepted_tokens", "Accepted draft tokens by LoRA adapter.", "acceptedTokens"),
    _counter("hook_seconds", "Time in the plugin's step hooks.", "hookSeconds"),
    _counter("hook_failures", "Hooks that failed and are disabled.", "hookFailures"),
    _counter("drafter_steps_skipped", "Steps with K=0 that skipped the drafter.", "drafterStepsSkipped"),
    _counter(
        "drafter_tokens_caught_up",
        "Tokens that the drafter missed and processed later.",
        "drafterTokensCaughtUp",
    ),
    Family(GaugeMetricFamily, "num_speculative_tokens", _TABLE, _schedule, ("batch",)),
    _gauge(
        "lease_remaining_seconds",
        "Seconds until the static schedule returns; 0 without a lease.",
        *("state", "leaseRemainingSeconds"),
    ),
    _gauge("term", "Term of the last accepted push.", "state", "term"),
    _gauge("epoch", "Epoch of the last accepted push.", "state", "epoch"),
    _gauge("live_tuning", "1 while the schedule can change.", "state", "liveTuning", "possible"),
    _gauge("probe_running", "1 while a probe runs.", "state", "probe", "running"),
    _gauge(
        "longest_step_seconds",
        "The longest step since the engine started; a push may wait as long.",
        "longestStepSeconds",
    ),
    Family(
        GaugeMetricFamily,
        "startup_profile_cells",
        "Cells of the startup profile.",
        lambda found: [((), len(found["stepTimes"]))],
    ),
    _gauge("fast_loop_active", "1 while the fast loop chooses K.", *_LOOP, "active"),
    _counter("fast_loop_looks", "Steps that drafted only to see the acceptance.", *_LOOP, "looks"),
    _counter("fast_loop_look_seconds", "Engine time of these steps.", *_LOOP, "lookSeconds"),
    _counter(
        "fast_loop_hook_seconds", "Time that the fast loop took inside of steps.", *_LOOP, "hookSeconds"
    ),
    Family(CounterMetricFamily, "fast_loop_changes", "Changes of K by the fast loop.", _changes, ("reason",)),
    Family(CounterMetricFamily, "fast_loop_steps", _CHOSEN, _by_k("steps"), ("k",)),
    Family(
        CounterMetricFamily,
        "fast_loop_step_seconds",
        "Engine time of these steps.",
        _by_k("seconds"),
        ("k",),
    ),
)


def render(measurements: Sequence[Measurement], *, model_name: str) -> bytes:
    """The metrics of all engine cores behind a server, in the text format 0.0.4."""
    return _text([_metric(family, measurements, model_name) for family in FAMILIES])


def render_silence(seconds: float) -> bytes:
    """The silence of the core, as one API server sees it; so it has no labels."""
    text = "Seconds for which the engine core has not answered this server."
    return _text([GaugeMetricFamily("outrider:core_silent_seconds", text, value=seconds)])


def _metric(family: Family, measurements: Sequence[Measurement], model_name: str) -> Metric:
    labels = ["model_name", "engine", *family.labels]
    metric = family.kind(f"outrider:{family.name}", family.text, labels=labels)
    for engine, found in enumerate(measurements):
        for values, value in family.samples(found):
            metric.add_metric([model_name, str(engine), *values], value)
    return metric


def _text(metrics: Sequence[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(metrics))
    return generate_latest(registry)


class _Metrics(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _label(cell: CellSums) -> str:
    return Bin(cell["minBatchSize"], cell["maxBatchSize"]).label


def _k(cell: CellSums) -> str:
    k = cell["numSpeculativeTokens"]
    return MIXED if k is None else str(k)
