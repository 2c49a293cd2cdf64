"""``python -m tests.bench.engine``: Outrider against every rule, on real vLLM in a cluster."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from examples.demo.cluster import Cluster, DemoFailed, Place
from examples.demo.options import CLIENT_IMAGE, KUBECTL, ClientImage, Context, Kubeconfig, Kubectl
from examples.demo.traffic import Traffic
from outrider.api.resource import SpeculativeModel
from outrider.cluster.errors import ClusterError
from outrider.cluster.resources import JsonObject
from outrider.simulate.rivals.tuners import hand_table
from tests.bench.engine import picture, plan
from tests.bench.engine.drive import Bench
from tests.bench.engine.engines import Engine, law_of, plain_manifest, speculative_manifest
from tests.bench.engine.figures import Analysis
from tests.bench.engine.journal import Journal, OtherPlan
from tests.bench.engine.pace import paced
from tests.bench.engine.plan import ARMS, Settings
from tests.bench.engine.progress import Progress
from tests.bench.engine.prometheus import prometheus
from tests.bench.engine.records import UnitRecord
from tests.bench.engine.result import Conditions, result
from tests.bench.engine.summary import summary
from tests.bench.engine.trace import Prompts, parse_trace

EXAMPLE = Path("examples/tiny-draft-model.yaml")
OUTPUT = Path("out/bench/engine")
TRACE, QUICK_TRACE = "1:60,24:60,2:50,12:50", "1:34,24:36,2:34"
TEMPERATURE = 0.0
LOG_WIDTH = 150
"""Columns of the tables, where no terminal says how wide it is."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Where:
    """Where the run happens."""

    place: Place
    namespace: str
    client_image: str
    ready_timeout: float
    keep_pace: bool
    output: Path


@app.command()
def main(
    trace: Annotated[str | None, typer.Option(help=f"streams:seconds, …  Default: {TRACE}")] = None,
    prompts: Annotated[Prompts, typer.Option(help="What the streams ask for.")] = Prompts.CODE,
    seed: Annotated[int, typer.Option(help="Of the orders and of the prompts.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Default: result.json in --output.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"One repeat of {QUICK_TRACE}.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Traces of each policy. Default: 2.")] = None,
    rounds: Annotated[int | None, typer.Option(min=2, help="Slices of static tables. Default: 4.")] = None,
    arms: Annotated[str, typer.Option(help="Some of: " + ",".join(ARMS))] = ",".join(ARMS),
    slice_seconds: Annotated[float | None, typer.Option(min=2, help="Counted seconds. Default: 4.")] = None,
    switch_seconds: Annotated[float, typer.Option(min=1, help="Seconds for a push between slices.")] = 2.0,
    scrape_seconds: Annotated[float, typer.Option(min=1, help="Prometheus' interval for the run.")] = 10.0,
    tick_seconds: Annotated[float, typer.Option(min=1, help="The operator's interval for the run.")] = 10.0,
    keep_pace: Annotated[bool, typer.Option("--keep-pace", help="Leave both intervals as they are.")] = False,
    max_tokens: Annotated[int, typer.Option(help="Tokens of each answer.")] = 128,
    output: Annotated[Path, typer.Option(help="Folder of the journal, the result and the picture.")] = OUTPUT,
    restart: Annotated[bool, typer.Option("--restart", help="Forget what the folder holds.")] = False,
    example: Annotated[Path, typer.Option(help="The SpeculativeModel to take as a base.")] = EXAMPLE,
    namespace: Annotated[str, typer.Option(help="Namespace of the models.")] = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    kubectl: Kubectl = KUBECTL,
    client_image: ClientImage = CLIENT_IMAGE,
    ready_timeout: Annotated[float, typer.Option(help="Seconds until an engine must serve.")] = 300.0,
) -> None:
    """Compare Outrider with static tables, the rules of the guides and a clairvoyant, on the same trace.

    A run that was interrupted goes on after its last finished unit.
    """
    console = Console()
    if not console.is_terminal:
        console.width = LOG_WIDTH
    text = trace or (QUICK_TRACE if quick else TRACE)
    base: JsonObject = yaml.safe_load(example.read_text(encoding="utf-8"))
    try:
        settings = Settings(
            trace=parse_trace(text, prompts),
            seed=seed,
            repeats=repeats or (1 if quick else 2),
            arms=_arms(arms),
            candidates=SpeculativeModel.model_validate(base).spec.candidates(),
            rounds=rounds or (2 if quick else 4),
            slice_seconds=slice_seconds or (3.0 if quick else 4.0),
            switch_seconds=switch_seconds,
            scrape_seconds=scrape_seconds,
            tick_seconds=tick_seconds,
            max_tokens=max_tokens,
            manifest=yaml.safe_dump(base, sort_keys=True),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    place = Place(kubeconfig, context, kubectl)
    where = Where(place, namespace, client_image, ready_timeout, keep_pace, output)
    journal = Journal(output / "journal.jsonl", settings.fingerprint)
    if restart:
        journal.forget()
    try:
        conditions, units = asyncio.run(_bench(where, base, settings, text, journal, Progress(console)))
    except (DemoFailed, ClusterError, OtherPlan) as error:
        told = f"The benchmark stopped: {error}\nThe same command goes on after the last finished unit."
        Console(stderr=True).print(told, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted. The same command goes on after the last finished unit.")
        raise typer.Exit(130) from None
    analysis = Analysis(settings.trace, units)
    found = result(analysis, conditions)
    written = [found.write(json or output / "result.json")]
    written.append(picture.save(analysis, found, output / "report.png"))
    for table in summary(found):
        console.print(table)
    console.print("Written: " + ", ".join(map(str, written)), markup=False, highlight=False, soft_wrap=True)


def _arms(text: str) -> tuple[str, ...]:
    wanted = {arm.strip() for arm in text.split(",")}
    unknown = sorted(wanted - set(ARMS))
    if unknown:
        raise ValueError(f"unknown arm {unknown[0]!r}, known are: {', '.join(ARMS)}")
    return tuple(arm for arm in ARMS if arm in wanted)


async def _bench(
    where: Where, base: JsonObject, settings: Settings, trace: str, journal: Journal, progress: Progress
) -> tuple[Conditions, list[UnitRecord]]:
    """Drive what the journal lacks; all units of the plan in its order."""
    task = asyncio.current_task()
    assert task is not None
    # An ended run puts the pace back, also when it is told to end by `kill`.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    done, units = journal.read(), plan.units(settings)
    missing = [unit for unit in units if unit.key not in done]
    cluster = Cluster(where.place, await where.place.api(), where.namespace)
    try:
        if missing:
            progress.begin(len(units), missing)
            pace = paced(
                cluster,
                scrape_seconds=settings.scrape_seconds,
                tick_seconds=settings.tick_seconds,
                memory=where.output / "prometheus-before.yml",
            )
            async with nullcontext() if where.keep_pace else pace, prometheus(where.place) as source:
                bench = Bench(
                    cluster=cluster,
                    engines={
                        plan.Engine.SPECULATIVE: Engine(cluster, speculative_manifest(base)),
                        plan.Engine.PLAIN: Engine(cluster, plain_manifest(base)),
                    },
                    traffic=_traffic(where, cluster, base, settings),
                    source=source,
                    settings=settings,
                    law=law_of(base),
                    ready_timeout=where.ready_timeout,
                    tell=progress.say,
                )
                await bench.set_up()
                try:
                    for unit in missing:
                        progress.start(unit)
                        done[unit.key] = await bench.run_patiently(unit)
                        journal.append(done[unit.key])
                        progress.finish(unit, done[unit.key])
                finally:
                    await asyncio.shield(bench.tear_down())
        records = [done[unit.key] for unit in units]
        return await _conditions(cluster, base, settings, trace, records), records
    finally:
        await cluster.client.aclose()


def _traffic(where: Where, cluster: Cluster, base: JsonObject, settings: Settings) -> Traffic:
    served = base["spec"]["model"].get("servedName") or plan.Engine.SPECULATIVE
    return Traffic(
        cluster, where.client_image, "", served, settings.max_tokens, TEMPERATURE, seed=settings.seed
    )


async def _conditions(
    cluster: Cluster,
    base: JsonObject,
    settings: Settings,
    trace: str,
    records: list[UnitRecord],
) -> Conditions:
    spec = SpeculativeModel.model_validate(base).spec
    server, nodes = await cluster.get_raw("/version"), await cluster.get_raw("/api/v1/nodes")
    capacity = nodes["items"][0]["status"]["capacity"]
    began, ended = (
        datetime.fromtimestamp(moment, UTC)
        for moment in (
            min(one.start for unit in records for one in unit.stretches),
            max(one.end for unit in records for one in unit.stretches),
        )
    )
    return Conditions(
        command=shlex.join(["python", "-m", "tests.bench.engine", *sys.argv[1:]]),
        started=began.isoformat(timespec="seconds"),
        finished=ended.isoformat(timespec="seconds"),
        commit=_commit(),
        plan=settings.fingerprint,
        trace=trace,
        seed=settings.seed,
        repeats=settings.repeats,
        rounds=settings.rounds,
        slice_seconds=settings.slice_seconds,
        scrape_seconds=settings.scrape_seconds,
        tick_seconds=settings.tick_seconds,
        max_tokens=settings.max_tokens,
        temperature=TEMPERATURE,
        arms=list(settings.arms),
        candidates=list(settings.candidates),
        hand_table=str(hand_table(settings.candidates)),
        cluster=f"{cluster.place.context or 'current context'}, {len(nodes['items'])} node(s)",
        kubernetes_version=server["gitVersion"],
        engine_image=spec.engine.image or "the operator's default",
        engine_version=spec.engine.version,
        outrider_version=version("outrider"),
        node_cores=int(capacity["cpu"]),
        node_memory=capacity["memory"],
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {_processor()}",
        load_average=[unit.load_average for unit in records],
    )


def _processor() -> str:
    """As the kernel of the client's machine calls it."""
    found = Path("/proc/cpuinfo")
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown processor")


def _commit() -> str:
    """Of the checkout; + where it was changed since."""
    try:
        name = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.strip()


if __name__ == "__main__":
    app()
