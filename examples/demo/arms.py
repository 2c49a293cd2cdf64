"""Switch a model between the tuner and a fixed K, without restarting a pod."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from examples.demo.phases import Arm, static_table
from examples.kit.cluster import Cluster
from examples.kit.status import converged, in_force, is_true
from outrider.api.annotations import OVERRIDE, OVERRIDE_UNTIL
from outrider.api.conditions import ConditionType
from outrider.api.reasons import TuningReason
from outrider.api.resource import SpeculativeModel
from outrider.api.status import Status
from outrider_protocol.schedule import Schedule

CONVERGE_SECONDS = 90.0
OVERRULED_FOR = timedelta(hours=1)
"""A demo that was killed leaves the model to the tuner after this."""


@dataclass(frozen=True)
class Example:
    """The applied manifest."""

    manifest: dict[str, Any]
    model: SpeculativeModel

    @classmethod
    def read(cls, path: Path) -> Example:
        """Read and check a manifest."""
        manifest = yaml.safe_load(path.read_text())
        return cls(manifest, SpeculativeModel.model_validate(manifest))

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def served_name(self) -> str:
        """The name that requests ask for."""
        return self.model.spec.model.served_name or self.name

    @property
    def largest_k(self) -> int:
        """The ceiling that the engine is launched with."""
        return max(self.model.spec.candidates())

    @property
    def wants_gpus(self) -> bool:
        """Whether its engines run on GPUs, as they do unless the resources say otherwise."""
        given = self.model.spec.resources
        return given is None or any("gpu" in name for name in (*given.limits, *given.requests))

    def overruled(self, table: Schedule, until: datetime) -> dict[str, Any]:
        """Return the manifest with an override. The tuner keeps its estimates and learns nothing new."""
        manifest = copy.deepcopy(self.manifest)
        annotations = manifest["metadata"].setdefault("annotations", {})
        annotations[OVERRIDE] = str(table.merged())
        annotations[OVERRIDE_UNTIL] = until.isoformat(timespec="seconds")
        return manifest


async def hand_over(cluster: Cluster, example: Example, arm: Arm) -> None:
    """Set or end an override, and wait until every pod confirmed the schedule."""
    table = static_table(arm, example.largest_k)
    if table is None:
        manifest, what = example.manifest, "the tuner's table again"
    else:
        manifest, what = example.overruled(table, datetime.now(UTC) + OVERRULED_FOR), str(table.merged())
    generation = await cluster.apply_model(manifest)

    def confirmed(status: Status) -> bool:
        active = status.condition(ConditionType.TUNING_ACTIVE)
        if active is None or not converged(status, generation):
            return False
        held = active.reason == TuningReason.OVERRIDDEN
        return not held if table is None else held and in_force(status) == what

    await cluster.wait(example.name, confirmed, f"the engines did not confirm {what}", CONVERGE_SECONDS)


async def wait_ready(
    cluster: Cluster, example: Example, timeout_seconds: float, tell: Callable[[str], None]
) -> None:
    """Wait until the model serves and its table is confirmed; `tell` gets each new state of progress."""

    def serves(status: Status) -> bool:
        return is_true(status, ConditionType.READY) and converged(status)

    await cluster.wait(example.name, serves, f"{example.name} was not ready", timeout_seconds, tell)
