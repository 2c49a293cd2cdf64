"""The operator's own metrics.

Metrics of models and those for autoscalers name models; other labels are from fixed sets.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

from outrider.controller.status_metrics import StatusMetrics
from outrider.controller.tuning_metrics import TuningMetrics

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_DEMAND_LABELS = ("namespace", "model")
_DEMAND_FRESH_SECONDS = 60.0


class DemandMetrics:
    """The metrics for autoscalers, one row per model with fresh measurements.

    A row disappears with its model, or after a minute without measurements: a missing value is not zero.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._required = Gauge(
            "outrider_required_replicas",
            "Replicas that the present load needs with the present schedule.",
            _DEMAND_LABELS,
            registry=registry,
        )
        self._saturation = Gauge(
            "outrider_saturation_ratio",
            "Running and waiting requests over those that the ready pods can hold; 1 is full.",
            _DEMAND_LABELS,
            registry=registry,
        )
        self._seen_at: dict[tuple[str, str], float] = {}

    def show(
        self, namespace: str, model: str, *, required_replicas: int, saturation_ratio: float, now: float
    ) -> None:
        """Set the row of one model. now: unix seconds."""
        self._seen_at[namespace, model] = now
        self._required.labels(namespace, model).set(required_replicas)
        self._saturation.labels(namespace, model).set(saturation_ratio)

    def forget_stale(self, *, now: float) -> None:
        """Drop the rows that were not set for a minute."""
        for labels, at in list(self._seen_at.items()):
            at = self._seen_at[labels] = min(at, now)  # later only after a clock that was ahead
            if now - at > _DEMAND_FRESH_SECONDS:
                del self._seen_at[labels]
                self._required.remove(*labels)
                self._saturation.remove(*labels)


class OwnMetrics:
    """The metrics of one process. Each instance has its own registry, so that tests do not share one."""

    def __init__(self, *, shards: int = 1) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.demand = DemandMetrics(self.registry)
        self.status = StatusMetrics(self.registry)
        self.tuning = TuningMetrics(self.registry)
        self._leader = Gauge(
            "outrider_operator_leader",
            "1 while this process leads, with the number of its shard.",
            ("shard",),
            registry=self.registry,
        )
        self.show_standby()
        self._gauge("shards", "Number of shards of which this process takes one.").set(shards)
        self.leases_lost = self._counter(
            "leases_lost", "Leadership terms that ended because the Lease was lost."
        )
        self.other_installations = self._gauge(
            "other_installations",
            "Other installations that manage models in namespaces which this one watches too.",
        )
        self.models = self._gauge("models", "Models known.")
        self.reconcile_seconds = self._histogram("reconcile_seconds", "Time of one reconcile.")
        self.reconciles = self._counter("reconciles", "Reconciles, by outcome: done or error.", "outcome")
        self.queue_depth = self._gauge("queue_depth", "Models that wait to be reconciled.")
        self.watch_restarts = self._counter("watch_restarts", "Restarts of the watches.")
        self.left_out = self._counter(
            "objects_left_out",
            "Dropped object states, by reason: unreadable, or no_room in the memory of the namespace.",
            "reason",
        )
        self.tuning_tick_seconds = self._histogram(
            "tuning_tick_seconds", "Time of one tick of the tuning loop over all models."
        )
        self.late_models = self._gauge(
            "late_models", "Models whose part of the last tick outlasted it, because engines do not answer."
        )
        self.tuning_restarts = self._counter("tuning_restarts", "Restarts of the tuning loop after an error.")
        self.tuning_failures = self._counter(
            "tuning_failures", "Ticks of one model that ended in an internal error."
        )
        self.pushes = self._counter(
            "pushes", "Schedules pushed to engine pods, by outcome: confirmed or failed.", "outcome"
        )
        self.probes = self._counter(
            "probes", "Probes ordered from engine pods, by outcome: started, busy or failed.", "outcome"
        )
        self.prometheus_query_seconds = self._histogram(
            "prometheus_query_seconds", "Time of all queries of one tick."
        )
        self.prometheus_errors = self._counter("prometheus_errors", "Ticks without an answer of Prometheus.")

    def show_leader(self, shard: int) -> None:
        """Show that this process leads a shard."""
        self._leader.clear()
        self._leader.labels(str(shard)).set(1)

    def show_standby(self) -> None:
        """Show that this process leads nothing. Prometheus drops the empty label."""
        self._leader.clear()
        self._leader.labels("").set(0)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"outrider_operator_{name}", text, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"outrider_operator_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"outrider_operator_{name}", text, buckets=_SECONDS, registry=self.registry)
