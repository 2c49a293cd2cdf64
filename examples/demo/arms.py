"""Give the model to an arm: tuner or static table, without restarting a pod."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from examples.demo.cluster import Cluster, DemoFailed
from examples.demo.phases import Arm, static_table
from outrider.api.conditions import ConditionStatus
from outrider.api.reasons import ConditionType
from outrider.api.resource import SpeculativeModel
from outrider.api.schedule import Schedule
from outrider.api.status import Status

CONVERGE_SECONDS = 90.0
POLL_SECONDS = 1.0


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
    def largest_k(self) -> int:
        """The ceiling that the engine is launched with."""
        return max(self.model.spec.candidates())

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
    await cluster.apply(example.for_arm(arm))
    model = await cluster.model(example.name)
    generation = model["metadata"]["generation"] if model else 0
    wanted = str(example.table(arm).merged())
    deadline = time.monotonic() + CONVERGE_SECONDS
    while True:
        status = await cluster.status(example.name)
        # Outrider may have moved on from its first table by the time that we look.
        if converged(status, generation) and (arm is Arm.OUTRIDER or in_force(status) == wanted):
            return
        if time.monotonic() > deadline:
            raise DemoFailed(
                f"the engines did not confirm {wanted} within {CONVERGE_SECONDS:.0f} s: {why(status)}"
            )
        await asyncio.sleep(POLL_SECONDS)


async def wait_ready(
    cluster: Cluster, example: Example, timeout_seconds: float, tell: Callable[[str], None]
) -> None:
    """Wait until the model serves and its table is confirmed; `tell` gets each new state of progress."""
    deadline, told = time.monotonic() + timeout_seconds, ""
    while True:
        status = await cluster.status(example.name)
        if is_true(status, ConditionType.READY) and converged(status):
            return
        progress = why(status)
        if progress != told:
            tell(progress)
            told = progress
        if time.monotonic() > deadline:
            raise DemoFailed(f"{example.name} was not ready within {timeout_seconds:.0f} s: {progress}")
        await asyncio.sleep(POLL_SECONDS)


def is_true(status: Status, condition: ConditionType) -> bool:
    """Whether the condition is there and True."""
    found = status.condition(condition)
    return found is not None and found.status is ConditionStatus.TRUE


def converged(status: Status, generation: int = 0) -> bool:
    """Whether every ready pod reads back the table that this generation of the spec asks for."""
    found = status.condition(ConditionType.ACTUATION_CONVERGED)
    if found is None or found.status is not ConditionStatus.TRUE:
        return False
    return found.observed_generation is None or found.observed_generation >= generation


def in_force(status: Status) -> str | None:
    """The table in force in one line, as few rows as possible."""
    speculation = status.speculation
    if speculation is None or speculation.schedule is None:
        return speculation.table if speculation else None
    rows = [row.model_dump(by_alias=True, exclude_none=True) for row in speculation.schedule]
    return str(Schedule.from_wire(rows).merged())


def why(status: Status) -> str:
    """The conditions that are not as they should be, in one line."""
    bad = {ConditionType.PROGRESSING, ConditionType.DEGRADED}
    told = [
        f"{one.type}={one.status} {one.reason}: {one.message}"
        for one in status.conditions
        if (one.status is ConditionStatus.TRUE) is (one.type in bad)
    ]
    return "; ".join(told) or "waiting for the engines to confirm their table"
