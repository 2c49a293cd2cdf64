"""Problems with the metrics of single pods, and their log messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from outrider.telemetry import names
from outrider.telemetry.series import PodKey

log = logging.getLogger(__name__)

MAX_PROBLEM = 200
"""Limit in characters of a problem's text, which may come from a pod."""


@dataclass(slots=True)
class Skipped:
    """Series of one pod that were skipped because they cannot be parsed."""

    count: int = 0
    first: str = ""
    of_vllm: bool = False  # one was vLLM's own, so the remaining sums may be wrong

    def add(self, name: str, problem: str) -> None:
        """Count one more."""
        self.count += 1
        self.first = self.first or f"{name}: {problem}"[:MAX_PROBLEM]
        self.of_vllm = self.of_vllm or name not in names.PLUGIN

    def __str__(self) -> str:
        return f"{self.count} series cannot be parsed, the first: {self.first}"


class Complaints:
    """Logger of each problem of a pod when it begins, and not again at every tick."""

    def __init__(self) -> None:
        self._told: frozenset[PodKey] = frozenset()

    def tell(self, problems: Mapping[PodKey, object]) -> None:
        """Log what is new. problems: all problems at this tick, by pod."""
        for pod in sorted(problems.keys() - self._told):
            log.warning("metrics of %s: %s", pod, problems[pod])
        self._told = frozenset(problems)
