"""A model with two replicas, and what the tests look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from outrider.controller.tune.memory import read_estimates
from tests.cluster import annotations
from tests.cluster.kubectl import Object, get, has_condition, patch
from tests.cluster.models import model

NAME = "pair"
STATIC = [{"maxBatchSize": 3, "numSpeculativeTokens": 0}, {"numSpeculativeTokens": 5}]
"""The opposite of good, so that the tuner has something to say."""
TICK = 5.0
"""As the cluster's operator is set up."""
TICKS = 30.0


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def speculation(seen: Object | None) -> Mapping[str, object]:
    """What status says of speculation; empty before it says anything."""
    found: Mapping[str, object] = ((seen or {}).get("status") or {}).get("speculation") or {}
    return found


def in_force(table: str, *, replicas: int) -> Callable[[Object | None], bool]:
    """Whether so many pods confirmed this table, and none did not."""

    def holds(seen: Object | None) -> bool:
        found = speculation(seen)
        applied = (found.get("table"), found.get("appliedReplicas"))
        return applied == (table, replicas) and has_condition(seen, "ActuationConverged", "True")

    return holds


def tune(mode: str) -> None:
    """The user edits the mode."""
    patch("specmodel", NAME, {"spec": {"speculation": {"tuning": {"mode": mode}}}})


def override(table: str, *, seconds: float = 600) -> None:
    """The user sets the table by annotation."""
    annotations.override(NAME, table, seconds=seconds)


def evidence() -> dict[tuple[str, int], float]:
    """What the tuner has stored: seconds of engine time behind each batch bin and K."""
    kept = get("configmap", f"{NAME}-tuner")
    if kept is None:
        return {}
    bins = read_estimates(kept["data"]["state.json"])
    return {
        (label, estimate.num_speculative_tokens): estimate.seconds
        for label, found in bins.items()
        for estimate in found.estimates
    }
