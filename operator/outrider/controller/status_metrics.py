"""The status of each model as metrics, read from the store at every scrape.

A model that is deleted, or that another installation manages, is not in the next scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from outrider.api.conditions import Condition, reason_of
from outrider.api.spec import Spec
from outrider.api.status import LatencyStatus, LaunchGain, Speedup, SpeedupReference, Status
from outrider.controller.stored import Key, StoredModel, key_of
from outrider.runtimes import runtime_of
from outrider.tuning.policy import span
from outrider_protocol.bins import bin_low, geometric_bins
from outrider_protocol.schedule import Schedule

MODEL_LABELS = ("model_namespace", "model")
"""Labels of the model. Not `namespace`: Prometheus gives that label to its targets, here to the operator."""

_MAX_POSITIONS = 32


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A model in a scrape."""

    key: Key
    status: Status
    edges: tuple[int, ...]
    """Upper edges of the batch bins; empty if the spec cannot be parsed."""


def shown(stored: StoredModel) -> ShownModel:
    """A model of the store."""
    spec = stored.model.spec if stored.model is not None else None
    return ShownModel(key_of(stored.metadata), stored.status, () if spec is None else _edges(spec))


def _edges(spec: Spec) -> tuple[int, ...]:
    try:
        return geometric_bins(runtime_of(spec).largest_batch(spec.engine.args))
    except ValueError:
        return ()  # the reconciler reports it in Degraded


class StatusMetrics(Collector):
    """The metrics of the models of `source` at the moment of a scrape; none until `follow` is called."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._source: Callable[[], Iterable[ShownModel]] = tuple
        registry.register(self)

    def follow(self, source: Callable[[], Iterable[ShownModel]]) -> None:
        """Set the source of the models."""
        self._source = source

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The families without samples, which reserve their names."""
        return iter(_Families().all)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All models, family by family."""
        families = _Families()
        for model in self._source():
            families.add(model)
        return iter(families.all)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"outrider_model_{name}", text, labels=(*MODEL_LABELS, *labels))


class _Families:
    """The metric families of one scrape."""

    def __init__(self) -> None:
        self.condition = _gauge(
            "condition",
            "1 for the present status and reason of each condition.",
            "type",
            "status",
            "reason",
        )
        self.state = _gauge("speculation_state", "1 for the present state of speculation.", "state")
        self.simulated = _gauge("simulated", "1 for a model with a simulated engine, which computes nothing.")
        self.ready = _gauge("ready_replicas", "Engine pods that serve.")
        self.applied = _gauge("applied_replicas", "Engine pods that confirmed the schedule.")
        self.speedup = _gauge(
            "speedup_ratio", "Goodput over that of a launch without drafter; above 1 speculation pays."
        )
        self.lower = _gauge("speedup_lower_ratio", "Lower end of its 95 % interval.")
        self.upper = _gauge("speedup_upper_ratio", "Upper end of its 95 % interval.")
        self.measured = _gauge(
            "speedup_measured", "1 if K=0 was measured on these engines; 0 for an estimate of the tuner."
        )
        self.measured_at = _gauge(
            "speedup_measured_timestamp_seconds", "Unix time of the measurement behind the speedup."
        )
        self.drafter = _gauge(
            "drafter_gain_ratio", "Goodput with the last new drafter over that with the one before."
        )
        self.drafter_lower = _gauge("drafter_gain_lower_ratio", "Lower end of its 95 % interval.")
        self.drafter_upper = _gauge("drafter_gain_upper_ratio", "Upper end of its 95 % interval.")
        self.acceptance = _gauge("acceptance_ratio", "Accepted over drafted tokens of the last minute.")
        self.length = _gauge(
            "acceptance_length_tokens", "Mean tokens per drafted step, the bonus token included."
        )
        self.position = _gauge(
            "position_acceptance_ratio",
            "Acceptance rate at a draft position, counted from 0, of the drafts that reach it.",
            "position",
        )
        self.latency = _gauge(
            "latency_seconds",
            "Percentile of a latency with a target: the lower or upper edge of its bucket, of two minutes.",
            "latency",
            "bound",
        )
        self.latency_limit = _gauge("latency_limit_seconds", "Limit of that percentile.", "latency")
        self.latency_kept = _gauge("latency_kept", "1 if the limit is kept, 0 if not.", "latency")
        self.k = _gauge(
            "num_speculative_tokens",
            "K of the present schedule, at the lower edge of each batch bin.",
            "batch",
        )

    @property
    def all(self) -> tuple[GaugeMetricFamily, ...]:
        return tuple(family for family in vars(self).values() if isinstance(family, GaugeMetricFamily))

    def add(self, model: ShownModel) -> None:
        status, speculation, labels = model.status, model.status.speculation, [*model.key]
        for condition in filter(_known, status.conditions):
            self.condition.add_metric([*labels, condition.type, condition.status, condition.reason], 1)
        if status.ready_replicas is not None:
            self.ready.add_metric(labels, status.ready_replicas)
        if status.slo is not None:
            self._add_latency([*labels, "inter_token"], status.slo.inter_token_latency)
            self._add_latency([*labels, "first_token"], status.slo.time_to_first_token)
        if speculation is None:
            return
        self.state.add_metric([*labels, speculation.state], 1)
        self.simulated.add_metric(labels, speculation.simulated is not None)
        if speculation.applied_replicas is not None:
            self.applied.add_metric(labels, speculation.applied_replicas)
        if speculation.acceptance_rate is not None:
            self.acceptance.add_metric(labels, speculation.acceptance_rate)
        if speculation.acceptance_length is not None:
            self.length.add_metric(labels, speculation.acceptance_length)
        for position, ratio in enumerate((speculation.per_position_acceptance or ())[:_MAX_POSITIONS]):
            self.position.add_metric([*labels, str(position)], ratio)
        if speculation.speedup is not None:
            self._add_speedup(labels, speculation.speedup)
        if speculation.drafter_gain is not None:
            self._add_drafter(labels, speculation.drafter_gain)
        if speculation.schedule:
            with suppress(ValueError):  # a schedule that was written by hand; the next report replaces it
                rows = [row.model_dump(by_alias=True) for row in speculation.schedule]
                self._add_table(labels, Schedule.from_wire(rows), model.edges)

    def _add_latency(self, labels: list[str], latency: LatencyStatus | None) -> None:
        if latency is None:
            return
        self.latency_limit.add_metric(labels, latency.limit_seconds)
        if latency.at_least_seconds is not None:
            self.latency.add_metric([*labels, "lower"], latency.at_least_seconds)
        if latency.at_most_seconds is not None:
            self.latency.add_metric([*labels, "upper"], latency.at_most_seconds)
        if latency.kept is not None:
            self.latency_kept.add_metric(labels, latency.kept)

    def _add_speedup(self, labels: list[str], speedup: Speedup) -> None:
        self.speedup.add_metric(labels, speedup.ratio)
        if speedup.low is not None:
            self.lower.add_metric(labels, speedup.low)
        if speedup.high is not None:
            self.upper.add_metric(labels, speedup.high)
        self.measured.add_metric(labels, speedup.reference is not SpeedupReference.PRIOR)
        self.measured_at.add_metric(labels, speedup.measured_at.timestamp())

    def _add_drafter(self, labels: list[str], gain: LaunchGain) -> None:
        self.drafter.add_metric(labels, gain.ratio)
        self.drafter_lower.add_metric(labels, gain.low)
        self.drafter_upper.add_metric(labels, gain.high)

    def _add_table(self, labels: list[str], table: Schedule, edges: tuple[int, ...]) -> None:
        for index, edge in enumerate(edges):
            low = bin_low(index, edges)
            batch = span(low, None if index == len(edges) - 1 else edge)
            self.k.add_metric([*labels, batch], table.k_at(low))


def _known(condition: Condition) -> bool:
    """Whether a condition is one of the operator's, because labels come from fixed sets only."""
    return reason_of(condition.type, condition.reason) is not None
