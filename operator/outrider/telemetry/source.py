"""The interface of metrics sources and its errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from outrider.api.reasons import MetricsReason
from outrider.telemetry.series import PodKey, PodMetrics


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

    async def fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        """Return raw samples of the last `lookback_seconds` of every engine pod.

        An unknown pod is absent from the result. A pod with unusable metrics is `Unreadable`. Neither affects
        other pods.

        Raises:
            MetricsError: nothing could be read. It raises no other error.
        """
        ...
