"""The metrics that autoscalers read, one row per model that has fresh measurements."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from outrider.controller.tune.demand import Demand

_LABELS = ("namespace", "model")
_FRESH_SECONDS = 60.0


class DemandMetrics:
    """Rows of models that are gone, or that nobody measured for a minute, disappear: no value is a value."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._required = Gauge(
            "outrider_required_replicas",
            "Replicas that the present load needs at the draft lengths in force.",
            _LABELS,
            registry=registry,
        )
        self._saturation = Gauge(
            "outrider_saturation_ratio",
            "Requests that run or wait over those that the ready pods can hold; 1 is full.",
            _LABELS,
            registry=registry,
        )
        self._seen_at: dict[tuple[str, str], float] = {}

    def show(self, namespace: str, model: str, demand: Demand, *, now: float) -> None:
        """Set the row of one model. now: unix seconds."""
        self._seen_at[namespace, model] = now
        self._required.labels(namespace, model).set(demand.required_replicas)
        self._saturation.labels(namespace, model).set(demand.saturation_ratio)

    def forget_stale(self, *, now: float) -> None:
        """Drop the rows that nobody has set for a minute."""
        for labels, at in list(self._seen_at.items()):
            if now - at > _FRESH_SECONDS:
                del self._seen_at[labels]
                self._required.remove(*labels)
                self._saturation.remove(*labels)
