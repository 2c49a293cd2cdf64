"""What a person says by annotations of a model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.cluster.kubectl import kubectl, namespace

PAUSED = "outrider.dev/paused"
OVERRIDE = "outrider.dev/schedule-override"
OVERRIDE_UNTIL = "outrider.dev/schedule-override-until"
FORGET = "outrider.dev/reset-tuner"


def pause(name: str) -> None:
    """Hold the table in force."""
    _annotate(name, f"{PAUSED}=true")


def override(name: str, table: str, *, seconds: float) -> None:
    """Set the table for so long."""
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    _annotate(name, f"{OVERRIDE}={table}", f"{OVERRIDE_UNTIL}={until}")


def forget(name: str, request: str) -> None:
    """Ask for it, by this name."""
    _annotate(name, f"{FORGET}={request}")


def take_back(name: str) -> None:
    """Leave everything to the tuner again."""
    _annotate(name, *(f"{annotation}-" for annotation in (PAUSED, OVERRIDE, OVERRIDE_UNTIL, FORGET)))


def _annotate(name: str, *words: str) -> None:
    kubectl("annotate", "specmodel", name, "-n", namespace(), "--overwrite", *words)
