"""``python -m examples.demo``: run the demo on a cluster and write what it found."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.demo import report
from examples.demo.arms import Example
from examples.demo.cluster import Cluster, DemoFailed, Place
from examples.demo.options import CLIENT_IMAGE, KUBECTL, ClientImage, Context, Kubeconfig, Kubectl
from examples.demo.outcome import result
from examples.demo.phases import Durations
from examples.demo.result import Conditions, Result
from examples.demo.run import run
from examples.demo.summary import summary
from examples.demo.table import Screen
from examples.demo.traffic import Traffic
from outrider.cluster.errors import ClusterError

EXAMPLE = Path("examples/tiny-draft-model.yaml")
OUTPUT = Path("out/demo")
USUAL = Durations()
QUICK = Durations(outrider=20.0, static=4.0)

app = typer.Typer(add_completion=False)


@app.command()
def main(
    example: Annotated[Path, typer.Option(help="The SpeculativeModel to apply.")] = EXAMPLE,
    output: Annotated[
        Path, typer.Option(help="Folder for result.json, report.png and report.html.")
    ] = OUTPUT,
    namespace: Annotated[str, typer.Option(help="Namespace of the model.")] = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    kubectl: Kubectl = KUBECTL,
    client_image: ClientImage = CLIENT_IMAGE,
    phase_seconds: Annotated[float, typer.Option(help="Length of Outrider's phases.")] = USUAL.outrider,
    slice_seconds: Annotated[float, typer.Option(help="Length of the static slices.")] = USUAL.static,
    quick: Annotated[bool, typer.Option("--quick", help="Short phases, to see that it works.")] = False,
    max_tokens: Annotated[int, typer.Option(help="Tokens of each answer.")] = 256,
    temperature: Annotated[float, typer.Option(help="0: greedy.")] = 0.0,
    ready_timeout: Annotated[float, typer.Option(help="Seconds until the model must serve.")] = 300.0,
) -> None:
    """Drive a model tuned live and held static, on the same pods; exit 0 only if the tuner did its work."""
    durations = QUICK if quick else Durations(phase_seconds, slice_seconds)
    place = Place(kubeconfig, context, kubectl)
    settings = (client_image, max_tokens, temperature)
    try:
        found = asyncio.run(
            _demo(place, namespace, Example.read(example), durations, settings, ready_timeout)
        )
    except (DemoFailed, ClusterError) as error:
        Console(stderr=True).print(f"The demo failed: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    output.mkdir(parents=True, exist_ok=True)
    written = [found.write(output), *report.write(found, output)]
    console = Console()
    console.print(summary(found))
    console.print(
        "Written: " + ", ".join(str(path) for path in written), markup=False, highlight=False, soft_wrap=True
    )
    for failure in found.failures:
        console.print(f"FAILED: {failure}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if found.passed else 1)


async def _demo(
    place: Place,
    namespace: str,
    example: Example,
    durations: Durations,
    settings: tuple[str, int, float],
    ready_timeout: float,
) -> Result:
    started, client_image, max_tokens, temperature = time.monotonic(), *settings
    when = datetime.now(UTC)
    api = await place.api()
    cluster = Cluster(place, api, namespace)
    served = example.model.spec.model.served_name or example.name
    url = f"http://{example.name}.{namespace}.svc/v1"
    traffic = Traffic(cluster, client_image, url, served, max_tokens, temperature)
    try:
        conditions = await _conditions(cluster, example, traffic, when)
        with Screen(Console()) as screen:
            log = await run(cluster, example, traffic, durations, screen, ready_timeout)
            if log.drafts_problem is not None:
                screen.say(f"no acceptance over time: {log.drafts_problem}")
    finally:
        await cluster.client.aclose()
    return result(log, conditions, total_seconds=time.monotonic() - started)


async def _conditions(cluster: Cluster, example: Example, traffic: Traffic, when: datetime) -> Conditions:
    spec = example.model.spec
    server, nodes = await cluster.get_raw("/version"), await cluster.get_raw("/api/v1/nodes")
    capacity = nodes["items"][0]["status"]["capacity"]
    return Conditions(
        command=shlex.join(["python", "-m", "examples.demo", *sys.argv[1:]]),
        started=when.isoformat(timespec="seconds"),
        cluster=f"{cluster.place.context or 'current context'}, {len(nodes['items'])} node(s)",
        kubernetes_version=server["gitVersion"],
        engine_image=spec.engine.image or "the operator's default",
        engine_version=spec.engine.version,
        outrider_version=version("outrider"),
        client_image=traffic.image,
        node_cores=int(capacity["cpu"]),
        node_memory=capacity["memory"],
        client_machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        max_tokens=traffic.max_tokens,
        temperature=traffic.temperature,
        largest_k=example.largest_k,
        candidates=list(spec.candidates()),
        static_schedule=str(spec.static_schedule()),
    )


if __name__ == "__main__":
    app()
