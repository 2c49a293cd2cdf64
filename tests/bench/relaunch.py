"""``python -m tests.bench.relaunch``: relaunches that the tuner orders, and their gain.

Wants the local cluster. Two scenes on stand-ins, nothing learnt before, and a relaunch each minute at most:

- ``drafter``: an engine bound by arithmetic pays a tax for K=0. Many streams come, for which drafting does
  not pay, then few again. `structuralOff: Allow`.
- ``table``: an engine without the plugin is launched with K=5 for every batch size. `actuation: Rollout`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.api.launch import ANNOTATION
from tests.bench.engine.stand_in import stand_in
from tests.bench.results import head, write
from tests.cluster.engines import name_of, pods_of, ready_pods
from tests.cluster.kubectl import wait_for
from tests.cluster.models import (
    TWIN,
    Manifest,
    deploying,
    model,
    read_example,
    simulation,
    speculation,
)
from tests.cluster.sending import Sender, sending_to

NAME = "relaunched"
START_SECONDS = 300.0
STRETCH_SECONDS = 20.0
LONGEST_SECONDS = 300.0
"""For one relaunch: until it is ordered, and carried out."""
AFTER_STRETCHES = 3
FEW, MANY = 2, 32
BARE = "no-drafter"
OUTPUT = Path("out/bench/relaunch.json")
TAX = 0.10
BOUND_BY_ARITHMETIC = {
    "name": "bound by arithmetic",
    "step_time": {
        "fixed": 0.02,
        "per_kv_token": 5e-8,
        "per_token": 1.5e-3,
        "draft_fixed": 5e-3,
        "draft_per_kv_token": 5e-9,
        "draft_per_token": 5e-5,
    },
    "survival": {"text": [0.5, 0.25, 0.12, 0.06, 0.03]},
    "kv_tokens": 200_000,
}


class Scene(StrEnum):
    """See above."""

    DRAFTER = "drafter"
    TABLE = "table"


@dataclass(frozen=True)
class Stretch:
    """A load over new connections. launches: of the ready pods at its end, as annotations write them."""

    at: float  # seconds since the load began
    streams: int
    launches: list[str]
    table: str | None  # from the status
    tokens_per_second: float
    failed: int


@dataclass
class Load:
    """Holds loads and writes down what came of them."""

    sender: Sender
    began: float = field(default_factory=time.monotonic)
    stretches: list[Stretch] = field(default_factory=list)

    async def hold(self, streams: int, stretches: int) -> None:
        """So many stretches."""
        for _ in range(stretches):
            began = time.monotonic()
            sent = await self.sender.send(streams, STRETCH_SECONDS)
            stretch = Stretch(
                at=began - self.began,
                streams=streams,
                launches=_launches(),
                table=speculation(model(NAME)).get("scheduleSummary"),
                tokens_per_second=sent.tokens / STRETCH_SECONDS,
                failed=sent.failed,
            )
            self.stretches.append(stretch)
            print(stretch, flush=True)

    async def until(self, streams: int, reached: Callable[[list[str]], bool]) -> bool:
        """Until the ready pods are launched like this, and somewhat longer; False where that never came."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while not reached(_launches()):
            if time.monotonic() > deadline:
                return False
            await self.hold(streams, 1)
        await self.hold(streams, AFTER_STRETCHES)
        return True


def main(
    scene: Annotated[list[Scene] | None, typer.Option(help="All where none is named.")] = None,
    output: Annotated[Path, typer.Option(help="The result.")] = OUTPUT,
) -> None:
    """Whether the tuner orders relaunches, and whether they pay."""
    began, found = datetime.now(UTC), dict[str, Any]()
    for each in scene or list(Scene):
        found[each] = asyncio.run(_run(each))
        _write(output, began, found)
    raise typer.Exit(0 if all(run["came"] for run in found.values()) else 1)


async def _run(scene: Scene) -> dict[str, Any]:
    asked = manifest(scene)
    with deploying() as deploy:
        deploy(asked, NAME)
        async with sending_to(asked) as sender:
            wait_for(
                "serves", lambda: model(NAME), lambda _: len(ready_pods(NAME)) == 1, seconds=START_SECONDS
            )
            await sender.reached()
            load = Load(sender)
            came = await (_without_drafter(load) if scene is Scene.DRAFTER else _better_table(load))
    return {"came": came, "stretches": [asdict(one) for one in load.stretches]}


async def _without_drafter(load: Load) -> bool:
    """With few streams it is learnt that drafting pays there."""
    await load.hold(FEW, 3)
    went = await load.until(MANY, lambda launches: launches == [BARE])
    return went and await load.until(
        FEW, lambda launches: launches not in ([], [BARE]) and BARE not in launches
    )


async def _better_table(load: Load) -> bool:
    first = _launches()
    await load.hold(MANY, 1)
    return await load.until(MANY, lambda launches: len(launches) == 1 and launches != first)


def manifest(scene: Scene) -> Manifest:
    """One stand-in."""
    return _drafter() if scene is Scene.DRAFTER else _table()


def _drafter() -> Manifest:
    found = read_example(TWIN)
    _tell(found, engine=BOUND_BY_ARITHMETIC, idle_tax=TAX)
    found["spec"]["speculation"]["tuning"] = {
        "mode": "Auto",
        "structuralOff": "Allow",
        "relaunchInterval": "60s",
    }
    return _small(found)


def _table() -> Manifest:
    found: Manifest = stand_in(read_example(TWIN), "h100_8b").manifest  # type: ignore[assignment]
    found["spec"]["speculation"] |= {
        "schedule": [{"numSpeculativeTokens": 5}],
        "tuning": {"mode": "Auto", "actuation": "Rollout", "relaunchInterval": "60s"},
    }
    return _small(found)


def _small(manifest: Manifest) -> Manifest:
    manifest["spec"]["resources"]["requests"]["cpu"] = "50m"
    return manifest


def _tell(manifest: Manifest, **told: object) -> None:
    variable = simulation(manifest)
    variable["value"] = json.dumps(json.loads(variable["value"]) | told)


def _launches() -> list[str]:
    ready = ready_pods(NAME)
    pods = [pod for pod in pods_of(NAME) if name_of(pod) in ready]
    return sorted(pod["metadata"]["annotations"].get(ANNOTATION, "") for pod in pods)


def _write(output: Path, began: datetime, scenes: dict[str, Any]) -> None:
    """After every scene, so that a run that is broken off keeps what it saw."""
    found = {
        **head("tests.bench.relaunch", sys.argv[1:], began),
        "scenes": scenes,
    }
    write(output, found)


if __name__ == "__main__":
    typer.run(main)
