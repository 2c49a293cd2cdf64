"""Give the model to an arm: tuner or static table, without restarting a pod."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from examples.demo.phases import Arm, static_table
from examples.kit.cluster import Cluster
from examples.kit.status import converged, in_force, is_true
from outrider.api.reasons import ConditionType
from outrider.api.resource import SpeculativeModel
from outrider.api.schedule import Schedule
from outrider.api.status import Status

CONVERGE_SECONDS = 90.0


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

    def table(self, arm: Arm) -> Schedule:
        """The table that the arm starts with (Outrider) or holds (the static arms)."""
        return static_table(arm, self.largest_k) or self.model.spec.static_schedule()

    def for_arm(self, arm: Arm) -> dict[str, Any]:
        """The manifest that hands the model to an arm; differs in tuning mode and static table only."""
        manifest = copy.deepcopy(self.manifest)
        if arm is not Arm.OUTRIDER:
            speculation = manifest["spec"]["speculation"]
            speculation["schedule"] = self.table(arm).to_wire()
            speculation["tuning"] = {**speculation.get("tuning", {}), "mode": "Off"}
        return manifest


async def hand_over(cluster: Cluster, example: Example, arm: Arm) -> None:
    """Apply the arm's manifest and wait until every pod confirmed its table."""
    generation = await cluster.apply_model(example.for_arm(arm))
    wanted = str(example.table(arm).merged())

    def confirmed(status: Status) -> bool:
        # Outrider may have moved on from its first table by the time that we look.
        return converged(status, generation) and (arm is Arm.OUTRIDER or in_force(status) == wanted)

    await cluster.wait(example.name, confirmed, f"the engines did not confirm {wanted}", CONVERGE_SECONDS)


async def wait_ready(
    cluster: Cluster, example: Example, timeout_seconds: float, tell: Callable[[str], None]
) -> None:
    """Wait until the model serves and its table is confirmed; `tell` gets each new state of progress."""

    def serves(status: Status) -> bool:
        return is_true(status, ConditionType.READY) and converged(status)

    await cluster.wait(example.name, serves, f"{example.name} was not ready", timeout_seconds, tell)
