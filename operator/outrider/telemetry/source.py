"""What every source of metrics promises, and how it fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from outrider.api.reasons import MetricsReason
from outrider.telemetry.series import PodKey, PodMetrics


class MetricsError(Exception):
    """No measurements from the source. The only error that `MetricsSource.fetch` raises.

    reason: for the condition MetricsAvailable.
    action: what the user can do, one plain sentence with its full stop.
    """

    reason = MetricsReason.PROMETHEUS_ERROR

    def __init__(self, message: str, *, action: str) -> None:
        super().__init__(message)
        self.action = action


class SourceUnreachable(MetricsError):
    """No answer: refused, name not found, timeout, TLS."""

    reason = MetricsReason.PROMETHEUS_UNREACHABLE


class EnginesUnreachable(MetricsError):
    """The engines themselves are asked, and none answers."""

    reason = MetricsReason.ENGINES_UNREACHABLE


class SourceRefused(MetricsError):
    """An answer with an error: HTTP status, `status: error`, login."""


class AnswerMalformed(MetricsError):
    """An answer that is not a result: no JSON, other fields, not a range vector, too large."""


class AnswerTooLarge(AnswerMalformed):
    """An answer beyond the limit; a part of it may fit."""


class Measurements(dict[PodKey, PodMetrics]):
    """What a source knows.

    notes: of pods whose samples are of use, though something about them should be mended; full sentences.
    """

    def __init__(self, found: Mapping[PodKey, PodMetrics], notes: Mapping[PodKey, str]) -> None:
        super().__init__(found)
        self.notes = notes

    def note(self, pods: Iterable[PodKey]) -> str:
        """The first of these pods; empty where there is none."""
        return next((self.notes[pod] for pod in pods if pod in self.notes), "")


class MetricsSource(Protocol):
    """Where measurements come from. One call serves all models."""

    async def fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        """Raw samples of the last `lookback_seconds` of every engine pod.

        A pod that the source does not know is absent, and one whose metrics are of no use is
        `Unreadable`; neither says anything about the others.

        Raises:
            MetricsError: nothing could be read; never any other error.
        """
        ...
