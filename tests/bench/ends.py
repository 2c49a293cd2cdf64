"""``python -m tests.bench.ends``: pods out of two end one after the other, under kept-open connections.

Wants the local cluster. Writes what each end came to, and fails when one request was lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shlex
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

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
    began = datetime.now(UTC)
    ends = asyncio.run(_ends(count))
    lost = sum(len(end.asked.failed) for end in ends)
    found = {
        "command": shlex.join(["python", "-m", "tests.bench.ends", *sys.argv[1:]]),
        "date": began.isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "kind": platform.machine()},
        "streams": STREAMS,
        "ends": [asdict(end) for end in ends],
        "requests": sum(sum(end.asked.requests.values()) for end in ends),
        "lost": lost,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{lost} of {found['requests']} requests lost in {count} ends; written: {output}")
    raise typer.Exit(1 if lost else 0)


async def _ends(count: int) -> list[End]:
    manifest = read_example()
    manifest["spec"]["replicas"] = 2
    manifest["spec"]["resources"]["requests"]["cpu"] = "100m"
    manifest["spec"]["speculation"]["tuning"] = {"mode": "Off"}
    ends = []
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(NAME):
            for number in range(1, count + 1):
                _wait_for_both()
                ends.append(end_one(NAME))
                print(f"{number}: {ends[-1]}", flush=True)
    return ends


def _wait_for_both() -> None:
    wait_for("both serve", lambda: model(NAME), lambda _: len(ready_pods(NAME)) == 2, seconds=START_SECONDS)


if __name__ == "__main__":
    typer.run(main)
