"""The interface of metrics sources, their errors, and their complaints about single pods."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from outrider.api.reasons import MetricsReason
from outrider.runtimes import dialects
from outrider.telemetry.series import PodKey, PodMetrics

log = logging.getLogger(__name__)

MAX_PROBLEM = 200
"""Limit in characters of a problem's text, which may come from a pod."""


class MetricsError(Exception):
    """The source returned no measurements. `MetricsSource.fetch` raises no other error.

    reason: for the condition MetricsAvailable.
    action: what the user can do, as one sentence with a full stop.
    """

    reason = MetricsReason.PROMETHEUS_ERROR

    def __init__(self, message: str, *, action: str) -> None:
        super().__init__(message)
        self.action = action


class SourceUnreachable(MetricsError):
    """No answer: refused, name not found, timeout, TLS."""

    reason = MetricsReason.PROMETHEUS_UNREACHABLE


class EnginesUnreachable(MetricsError):
    """No engine answers a scrape by the operator."""

    reason = MetricsReason.ENGINES_UNREACHABLE


class SourceRefused(MetricsError):
    """An answer with an error: HTTP status, `status: error`, login."""


class AnswerMalformed(MetricsError):
    """An answer without a result: not JSON, other fields, not a range vector, or too large."""


class AnswerTooLarge(AnswerMalformed):
    """An answer above the limit; an answer for fewer pods may fit."""


class Measurements(dict[PodKey, PodMetrics]):
    """The result of one fetch.

    notes: full sentences about pods whose samples are usable, but whose scraping has a defect.
    """

    def __init__(self, found: Mapping[PodKey, PodMetrics], notes: Mapping[PodKey, str]) -> None:
        super().__init__(found)
        self.notes = notes

    def note(self, pods: Iterable[PodKey]) -> str:
        """Return the note about the first of these pods that has one; empty otherwise."""
        return next((self.notes[pod] for pod in pods if pod in self.notes), "")


class MetricsSource(Protocol):
    """A source of measurements. One call serves all models."""

    async def fetch(
        self, lookback_seconds: float, *, resting: Set[PodKey] = frozenset()
    ) -> Mapping[PodKey, PodMetrics]:
        """Return raw samples of the last `lookback_seconds` of every engine pod.

        resting: pods whose samples are not needed now; a source may leave them out.

        An unknown pod is absent from the result. A pod with unusable metrics is `Unreadable`. Neither affects
        other pods.

        Raises:
            MetricsError: nothing could be read. It raises no other error.
        """
        ...


@dataclass(slots=True)
class Skipped:
    """Series of one pod that were skipped because they cannot be parsed."""

    count: int = 0
    first: str = ""
    of_engine: bool = False  # one was a sum of the engine's own, so the remaining sums may be wrong

    def add(self, name: str, problem: str) -> None:
        """Count one more."""
        self.count += 1
        self.first = self.first or f"{name}: {problem}"[:MAX_PROBLEM]
        self.of_engine = self.of_engine or name not in dialects().of_plugin | dialects().histograms

    def __str__(self) -> str:
        return f"{self.count} series cannot be parsed, the first: {self.first}"


class Complaints:
    """Logger of each problem of a pod when it begins, and not again at every tick."""

    def __init__(self) -> None:
        self._told: frozenset[PodKey] = frozenset()

    def tell(self, problems: Mapping[PodKey, object], *, unasked: Set[PodKey] = frozenset()) -> None:
        """Log what is new.

        problems: all problems at this tick, by pod. unasked: pods that may have kept theirs.
        """
        for pod in sorted(problems.keys() - self._told):
            log.warning("metrics of %s: %s", pod, problems[pod])
        self._told = frozenset(problems) | (self._told & unasked)
