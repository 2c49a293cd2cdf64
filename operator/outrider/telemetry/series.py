"""Raw samples of one pod's metrics, as a source delivers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class PodKey(NamedTuple):
    """One pod of the cluster."""

    namespace: str
    pod: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"


class Sample(NamedTuple):
    """One scraped value."""

    at: float  # unix seconds, on the source's clock
    value: float  # finite


PodSeries = Mapping[str, tuple[Sample, ...]]
"""Metric name -> samples in rising order of time.

A metric with a `position` label has one entry per position, named ``name{position}``.
Several engines in one pod are summed (gauges of a ratio: the largest).
"""
