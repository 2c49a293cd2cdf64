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

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.demand = DemandMetrics(self.registry)
        self.status = StatusMetrics(self.registry)
        self.tuning = TuningMetrics(self.registry)
        self.leader = Gauge("outrider_operator_leader", "1 while this process leads.", registry=self.registry)
        self.leases_lost = Counter(
            "outrider_operator_leases_lost",
            "Leadership terms that ended because the Lease was lost.",
            registry=self.registry,
        )
        self.other_installations = Gauge(
            "outrider_operator_other_installations",
            "Other installations that manage models in namespaces which this one watches too.",
            registry=self.registry,
        )
        self.models = Gauge("outrider_operator_models", "Models known.", registry=self.registry)
        self.reconcile_seconds = Histogram(
            "outrider_operator_reconcile_seconds",
            "Time of one reconcile.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.reconciles = Counter(
            "outrider_operator_reconciles",
            "Reconciles, by outcome: done or error.",
            ["outcome"],
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "outrider_operator_queue_depth", "Models that wait to be reconciled.", registry=self.registry
        )
        self.watch_restarts = Counter(
            "outrider_operator_watch_restarts", "Restarts of the watches.", registry=self.registry
        )
        self.left_out = Counter(
            "outrider_operator_objects_left_out",
            "Dropped object states, by reason: unreadable, or no_room in the memory of the namespace.",
            ["reason"],
            registry=self.registry,
        )
        self.tuning_tick_seconds = Histogram(
            "outrider_operator_tuning_tick_seconds",
            "Time of one tick of the tuning loop over all models.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.tuning_restarts = Counter(
            "outrider_operator_tuning_restarts",
            "Restarts of the tuning loop after an error.",
            registry=self.registry,
        )
        self.tuning_failures = Counter(
            "outrider_operator_tuning_failures",
            "Ticks of one model that ended in an internal error.",
            registry=self.registry,
        )
        self.pushes = Counter(
            "outrider_operator_pushes",
            "Schedules pushed to engine pods, by outcome: confirmed or failed.",
            ["outcome"],
            registry=self.registry,
        )
        self.probes = Counter(
            "outrider_operator_probes",
            "Probes ordered from engine pods, by outcome: started, busy or failed.",
            ["outcome"],
            registry=self.registry,
        )
        self.prometheus_query_seconds = Histogram(
            "outrider_operator_prometheus_query_seconds",
            "Time of all queries of one tick.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.prometheus_errors = Counter(
            "outrider_operator_prometheus_errors",
            "Ticks without an answer of Prometheus.",
            registry=self.registry,
        )
