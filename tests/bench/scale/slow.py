"""What may be slow after the creation of all models. Pure."""

from __future__ import annotations

from enum import StrEnum

SECONDS = 0.2
"""Delay of each answer of something slow."""

STEADY, AFTERWARDS = "steady", "afterwards"
"""The normal times beside a slow one: before it and after it."""


class Slow(StrEnum):
    """What is slow."""

    NOTHING = "nothing"
    SLOW_MODEL = "slow-model"
    """The engines of the first model answer late."""
    SILENT_MODEL = "silent-model"
    """The engines of the first model answer nothing more."""
    PODS = "pods"
    """Each engine answers late."""
    API_SERVER = "api-server"
    """The API server answers the operator late."""

    @property
    def of_one_model(self) -> bool:
        """Whether only the first model is slow, so that others are compared."""
        return self in (Slow.SLOW_MODEL, Slow.SILENT_MODEL)
