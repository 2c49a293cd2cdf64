"""``python -m tests.bench.tax``: what the canary says of K=0's tax, beside the tax that a stand-in was given.

Wants the local cluster. Each run deploys two stand-ins with nothing learnt, holds a load until the canary
has come and gone, and reads what the operator stored.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import expm1
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter

from outrider.controller.stored import state_config_map
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from tests.bench.engine.stand_in import stand_in
from tests.bench.results import head, write
from tests.cluster.kubectl import condition, get, has_condition, wait_for
from tests.cluster.models import TWIN, deploying, model, read_example, simulation
from tests.cluster.sending import Sender, sending_to

NAME = "taxed"
START_SECONDS = 300.0
CANARY_SECONDS = 1200.0
"""A canary has to start, and stays 15 minutes at most."""
STRETCH_SECONDS = 60.0
"""Connections are new in each, and share themselves out over the pods anew."""
OUTPUT = Path("out/bench/tax.json")
_OVERHEAD: TypeAdapter[IdleDrafterOverhead | None] = TypeAdapter(IdleDrafterOverhead | None)


@dataclass(frozen=True)
class Found:
    """One run. Taxes are relative: by so much longer takes a step with K=0 beside a drafter.

    said, deviation: what the operator stored, and its standard error with the difference between pods; None
        where it measured nothing.
    seconds: from the start of the load until the canary was gone.
    """

    engine: str
    given: float
    streams: int
    said: float | None
    deviation: float | None
    measured: bool
    seconds: float
    failed: int


def main(
    engine: Annotated[str, typer.Option(help="A stand-in with step times.")] = "h100_8b",
    tax: Annotated[list[float] | None, typer.Option(min=0.0, help="Given to the stand-in.")] = None,
    streams: Annotated[int, typer.Option(min=1, help="Of both pods together.")] = 16,
    repeats: Annotated[int, typer.Option(min=1, help="Of each tax.")] = 2,
    output: Annotated[Path, typer.Option(help="The result.")] = OUTPUT,
) -> None:
    """Is the canary's figure right?"""
    began, runs = datetime.now(UTC), list[Found]()
    for _ in range(repeats):
        for given in tax or [0.03, 0.10]:
            runs.append(asyncio.run(_run(engine, given, streams)))
            print(runs[-1], flush=True)
            _write(output, began, runs)
    raise typer.Exit(0 if all(found.measured for found in runs) else 1)


async def _run(engine: str, given: float, streams: int) -> Found:
    asked = manifest(engine, given)
    with deploying() as deploy:
        deploy(asked, NAME)
        async with sending_to(asked) as sender:
            wait_for(
                "both serve",
                _look,
                lambda seen: (
                    has_condition(seen, "Ready", "True") and (seen or {})["status"].get("readyReplicas") == 2
                ),
                seconds=START_SECONDS,
            )
            await sender.reached()
            since = time.monotonic()
            failed = await _until_it_was_here(sender, streams)
            found = _measured()
    return Found(
        engine,
        given,
        streams,
        said=None if found is None else expm1(found.mean),
        deviation=None if found is None else found.error,
        measured=found is not None,
        seconds=time.monotonic() - since,
        failed=failed,
    )


def manifest(engine: str, given: float) -> dict[str, Any]:
    """Two stand-ins of which one may be a canary. given: their tax."""
    found: dict[str, Any] = stand_in(read_example(TWIN), engine).manifest  # type: ignore[assignment]
    found["spec"]["replicas"] = 2
    found["spec"]["resources"]["requests"]["cpu"] = "50m"
    found["spec"]["speculation"]["tuning"] = {"mode": "Auto", "canary": "Allow"}
    variable = simulation(found)
    variable["value"] = json.dumps(json.loads(variable["value"]) | {"idle_tax": given})
    return found


async def _until_it_was_here(sender: Sender, streams: int) -> int:
    """Failed requests."""
    failed, seen = 0, False
    deadline = time.monotonic() + CANARY_SECONDS
    while time.monotonic() < deadline:
        running = (condition(_look(), "LaunchOptimal") or {}).get("reason") == "CanaryRunning"
        if seen and not running:
            break
        seen = seen or running
        failed += (await sender.send(streams, STRETCH_SECONDS)).failed
    return failed


def _measured() -> IdleDrafterOverhead | None:
    stored = get("configmap", state_config_map(NAME))
    (text,) = (stored or {})["data"].values()
    return measured_overhead(text)


def measured_overhead(snapshot: str) -> IdleDrafterOverhead | None:
    """What launches without a drafter showed, of a tuner's stored snapshot; None before one did."""
    return _OVERHEAD.validate_python(json.loads(snapshot)["state"]["state"]["canary"]["overhead"])


def _look() -> dict[str, Any] | None:
    return model(NAME)


def _write(output: Path, began: datetime, runs: list[Found]) -> None:
    """After every run, so that one that is broken off keeps what it saw."""
    found = {
        **head("tests.bench.tax", sys.argv[1:], began),
        "runs": [asdict(one) for one in runs],
    }
    write(output, found)


if __name__ == "__main__":
    typer.run(main)
