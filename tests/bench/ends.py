"""``python -m tests.bench.ends``: pods out of two end one after the other, under kept-open connections.

Wants the local cluster. Writes what each end came to, and fails when one request was lost.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tests.bench.results import head, write
from tests.cluster.ends import STREAMS, End, end_one
from tests.cluster.engines import ready_pods
from tests.cluster.kubectl import wait_for
from tests.cluster.models import deploying, model, read_example
from tests.cluster.sending import sending_to

NAME = "ends"
START_SECONDS = 400.0
OUTPUT = Path("out/bench/ends.json")


def main(
    count: Annotated[int, typer.Option(min=1, help="Pods that end.")] = 20,
    output: Annotated[Path, typer.Option(help="The result.")] = OUTPUT,
) -> None:
    """Count the requests that clients lose when the pods of a model with two replicas end."""
    ends = asyncio.run(_ends(count, output))
    lost = sum(len(end.asked.failed) for end in ends)
    print(f"{lost} requests lost in {count} ends; written: {output}")
    raise typer.Exit(1 if lost else 0)


async def _ends(count: int, output: Path) -> list[End]:
    manifest = read_example()
    manifest["spec"]["replicas"] = 2
    manifest["spec"]["resources"]["requests"]["cpu"] = "100m"
    manifest["spec"]["speculation"]["tuning"] = {"mode": "Off"}
    began, ends = datetime.now(UTC), list[End]()
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest):
            while len(ends) < count:
                _wait_for_both()
                ends.append(end_one(NAME))
                print(f"{len(ends)}: {ends[-1]}", flush=True)
                _write(output, began, ends)
    return ends


def _write(output: Path, began: datetime, ends: Sequence[End]) -> None:
    """After every end, so that a run that is broken off keeps what it saw."""
    found = {
        **head("tests.bench.ends", sys.argv[1:], began),
        "streams": STREAMS,
        "ends": [asdict(end) for end in ends],
        "requests": sum(sum(end.asked.requests.values()) for end in ends),
        "lost": sum(len(end.asked.failed) for end in ends),
    }
    write(output, found)


def _wait_for_both() -> None:
    wait_for("both serve", lambda: model(NAME), lambda _: len(ready_pods(NAME)) == 2, seconds=START_SECONDS)


if __name__ == "__main__":
    typer.run(main)
