"""``python -m examples.demo``: run the demo on a cluster and write what it found."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.demo import control, report, stand_ins
from examples.demo.arms import Example
from examples.demo.beside_record import Published
from examples.demo.outcome import result
from examples.demo.phases import ANSWER_TOKENS, FEWEST_PROMPTS, Durations
from examples.demo.result import Conditions, Result
from examples.demo.run import run
from examples.demo.summary import summary
from examples.demo.table import Screen
from examples.kit.cluster import Cluster, Place, RunFailed, address
from examples.kit.conditions import surroundings
from examples.kit.options import CLIENT_IMAGE, EXAMPLE, KUBECTL, ClientImage, Context, Kubeconfig, Kubectl
from examples.kit.traffic import Traffic
from outrider.cluster.errors import ClusterError

OUTPUT = Path("out/demo")
USUAL = Durations()
QUICK = Durations(learning=20.0, static=4.0, own=6.0, rounds=1, simulated=10.0)

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
    learning_seconds: Annotated[
        float, typer.Option(help="Seconds that Outrider runs each load before the comparison.")
    ] = USUAL.learning,
    slice_seconds: Annotated[float, typer.Option(help="Seconds of an interval of fixed K.")] = USUAL.static,
    own_seconds: Annotated[float, typer.Option(help="Seconds of Outrider's intervals.")] = USUAL.own,
    rounds: Annotated[int, typer.Option(min=1, help="Mirrored rounds of intervals in each phase.")] = (
        USUAL.rounds
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Short phases, to see that it works.")] = False,
    twin: Annotated[
        bool, typer.Option(help="Add a run on simulated engines with an H100's step times.")
    ] = True,
    max_tokens: Annotated[int, typer.Option(help="Tokens of each answer.")] = ANSWER_TOKENS,
    temperature: Annotated[float, typer.Option(help="0: greedy.")] = 0.0,
    ready_timeout: Annotated[float, typer.Option(help="Seconds until the model must serve.")] = 300.0,
) -> None:
    """Compare a tuned model with fixed K on the same pods; exit 0 only if the tuner worked as expected.

    At the end the tuner also runs simulated engines, which sleep an H100's step times and compute nothing.
    """
    durations = QUICK if quick else Durations(learning_seconds, slice_seconds, own_seconds, rounds)
    place = Place(kubeconfig, context, kubectl)
    settings = (client_image, max_tokens, temperature)
    stand_in = Example.read(stand_ins.EXAMPLE) if twin else None
    try:
        found = asyncio.run(
            _demo(place, namespace, Example.read(example), durations, settings, ready_timeout, stand_in)
        )
    except (RunFailed, ClusterError) as error:
        Console(stderr=True).print(f"The demo failed: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    output.mkdir(parents=True, exist_ok=True)
    written = [found.write(output), *report.write(found, output)]
    console = Console()
    console.print(*summary(found, Published.newest()), sep="\n")
    console.print(
        "Written: " + ", ".join(str(path) for path in written), markup=False, highlight=False, soft_wrap=True
    )
    for note in found.notes:
        console.print(f"NOTE: {note}", markup=False, highlight=False, soft_wrap=True)
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
    stand_in: Example | None,
) -> Result:
    started, client_image, max_tokens, temperature = time.monotonic(), *settings
    when = datetime.now(UTC)
    api = await place.api()
    cluster = Cluster(place, api, namespace)
    url = address(example.name, namespace)
    traffic = Traffic(
        cluster, client_image, url, example.served_name, max_tokens, temperature, few=FEWEST_PROMPTS
    )
    lap, notes = None, list[str]()
    try:
        conditions = await _conditions(cluster, example, traffic, when)
        before = await control.look(cluster)
        with Screen(Console()) as screen:
            log = await run(cluster, example, traffic, durations, screen, ready_timeout)
            if log.counters_problem is not None:
                screen.say(f"no acceptance and no K over time: {log.counters_problem}")
            if stand_in is not None:
                try:
                    lap = await stand_ins.lap(
                        cluster, example, stand_in, traffic, durations.simulated, screen
                    )
                except (RunFailed, ClusterError) as error:
                    # Report the results of the real engines without it.
                    notes.append(f"There was no simulated run: {error}")
                    screen.say(notes[-1])
        notes += filter(None, [control.interruption(before, await control.look(cluster))])
    finally:
        await cluster.client.aclose()
    total = time.monotonic() - started
    return result(log, conditions, total_seconds=total, lap=lap, notes=notes)


async def _conditions(cluster: Cluster, example: Example, traffic: Traffic, when: datetime) -> Conditions:
    spec = example.model.spec
    around = await surroundings(cluster, spec, module="examples.demo")
    return Conditions(
        **around.model_dump(),
        started=when.isoformat(timespec="seconds"),
        client_image=traffic.image,
        max_tokens=traffic.max_tokens,
        temperature=traffic.temperature,
        largest_k=example.largest_k,
        candidates=list(spec.candidates()),
        static_schedule=str(spec.static_schedule()),
        on_gpus=example.wants_gpus,
    )


if __name__ == "__main__":
    app()
