"""A model with two replicas, and what the tests look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster.alerts import knowing_broken_text
from tests.cluster.annotations import override as override_table
from tests.cluster.kubectl import Object, patch, wait_for
from tests.cluster.models import deploying, in_force, model, read_twin
from tests.cluster.models import evidence as evidence_of
from tests.cluster.sending import Sender, sending_to

NAME = "pair"
STATIC = [{"maxBatchSize": 3, "numSpeculativeTokens": 0}, {"numSpeculativeTokens": 5}]
"""The opposite of good, so that the tuner has something to say."""
TICK = 5.0
"""As the cluster's operator is set up."""
TICKS = 30.0


@asynccontextmanager
async def two_engines() -> AsyncIterator[Sender]:
    """Two engines behind one Service, and a client."""
    manifest = knowing_broken_text(read_twin())
    manifest["spec"]["replicas"] = 2
    manifest["spec"]["speculation"] |= {"tuning": {"mode": "Off"}, "schedule": STATIC}
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            wait_for("both serve", look, in_force("3:0,*:5", replicas=2), seconds=400)
            await sender.reached()
            yield sender


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def tune(mode: str) -> None:
    """The user edits the mode."""
    patch("specmodel", NAME, {"spec": {"speculation": {"tuning": {"mode": mode}}}})


def override(table: str, *, seconds: float = 600) -> None:
    """The user sets the table by annotation."""
    override_table(NAME, table, seconds=seconds)


def rules(k: int) -> None:
    """The operator pushes a table, and both engines confirm it."""
    override(f"*:{k}")
    wait_for(f"both have K={k}", look, in_force(f"*:{k}", replicas=2), seconds=TICKS)


def evidence() -> dict[tuple[str, int], float]:
    """What the tuner has stored: seconds of engine time behind each batch bin and K."""
    return evidence_of(NAME)
