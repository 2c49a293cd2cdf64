"""One stand-in that the commands of `outrider` are tried on."""

from __future__ import annotations

from tests.cluster.kubectl import Object
from tests.cluster.models import model

NAME = "commands"
TABLE = "*:2"
SCHEDULE = [{"numSpeculativeTokens": 2}]


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)
