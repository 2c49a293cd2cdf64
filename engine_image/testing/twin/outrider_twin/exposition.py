"""The metrics of a simulated engine: that it is simulated, and its delays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outrider_twin.pace import Report

LABELS = ["model_name", "engine"]


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def render(reports: Sequence[Report], *, model_name: str) -> bytes:
    """The metrics in the text format 0.0.4."""
    simulated = GaugeMetricFamily(
        "outrider_twin:simulated",
        "1: this engine computes nothing, and its text has no meaning.",
        labels=[*LABELS, "source"],
    )
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
        "steps": CounterMetricFamily("outrider_twin:steps", "Engine steps.", labels=LABELS),
        "scheduled": CounterMetricFamily(
            "outrider_twin:scheduled_seconds", "Time of all steps by the table.", labels=LABELS
        ),
        "lost": CounterMetricFamily(
            "outrider_twin:lost_seconds",
            "Additional time of all steps; above 1 % of the scheduled time a measurement is void.",
            labels=LABELS,
        ),
        "latest": GaugeMetricFamily(
            "outrider_twin:late_seconds_max", "Maximum delay of one step.", labels=LABELS
        ),
        "ratio": GaugeMetricFamily(
            "outrider_twin:late_ratio", "Lost over scheduled time since the start.", labels=LABELS
        ),
        "time_factor": GaugeMetricFamily(
            "outrider_twin:time_factor", "Factor on the step times of the table.", labels=LABELS
        ),
    }
    for index, found in enumerate(reports):
        labels, values = [model_name, str(index)], cast(dict[str, float], found)
        simulated.add_metric([*labels, found["engine"]], 1.0)
        for name, family in families.items():
            family.add_metric(labels, float(values[name]))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families([simulated, *families.values()]))
    return generate_latest(registry)
