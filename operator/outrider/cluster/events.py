"""Kubernetes events about a SpeculativeModel. Callers emit them on transitions only."""

from __future__ import annotations

import logging
import socket
import uuid
from datetime import UTC, datetime

from outrider.api.reasons import EventReason
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, Conflict
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import EVENTS, MODELS

log = logging.getLogger(__name__)

_MAX_NOTE = 1024
"""Limit of a note; the API server counts bytes."""


class EventWriter:
    """Writer of events. It logs an event that it cannot write, and does not retry."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._instance = socket.gethostname()

    async def emit(
        self,
        model: Owner,
        reason: EventReason,
        note: str,
        *,
        action: str = "Reconcile",
    ) -> None:
        """Write one event. action: what the operator did or tried, in one word."""
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{model.name}.{uuid.uuid4().hex[:16]}", "namespace": model.namespace},
            "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "reportingController": "outrider.dev/operator",
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason.value,
            "type": reason.severity,
            "note": _within(note, _MAX_NOTE),
            "regarding": {
                "apiVersion": MODELS.api_version,
                "kind": MODELS.kind,
                "namespace": model.namespace,
                "name": model.name,
                "uid": model.uid,
            },
        }
        try:
            await self._cluster.create(EVENTS, event)
        except Conflict:
            return  # Its name is random, so an attempt whose reply was lost has written it.
        except ClusterError as error:
            log.warning("event %s about %s/%s not written: %s", reason, model.namespace, model.name, error)


def _within(note: str, longest: int) -> str:
    """Shorten a note to the limit in bytes of UTF-8; a shortened note ends in an ellipsis."""
    encoded = note.encode(errors="replace")
    if len(encoded) <= longest:
        return encoded.decode()
    room = longest - len("…".encode())
    return f"{encoded[:room].decode(errors='ignore')}…"
