"""``python -m tests.bench.engine``: Outrider against every rule, on real vLLM in a cluster."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import httpx
import typer
import yaml
from rich.console import Console

from examples.kit.cluster import Cluster, Place, RunFailed
from examples.kit.conditions import surroundings
from examples.kit.loads import Prompts
from examples.kit.options import CLIENT_IMAGE, EXAMPLE, KUBECTL, ClientImage, Context, Kubeconfig, Kubectl
from examples.kit.proxy import api_proxy
from examples.kit.traffic import Traffic
from outrider.api.resource import SpeculativeModel
from outrider.cluster.errors import ClusterError
from outrider.cluster.resources import JsonObject
from outrider_lab.rivals.profiled import OfflineProfile
from outrider_lab.rivals.tuners import hand_table
from tests.bench.engine import picture, plan
from tests.bench.engine.drive import Bench
from tests.bench.engine.engines import Engine, law_of, plain_manifest, speculative_manifest
from tests.bench.engine.figures import Analysis
from tests.bench.engine.knowledge import offline_profile
from tests.bench.engine.pace import paced, prometheus
from tests.bench.engine.plan import ARMS, ON_PROFILES, Settings
from tests.bench.engine.prediction import NUMBER_BYTES, Prediction, predict
from tests.bench.engine.progress import Progress
from tests.bench.engine.records import Journal, OtherPlan, UnitRecord
from tests.bench.engine.result import Conditions, result
from tests.bench.engine.stand_in import DRAWN, REAL, TRACES, TWIN, StandIn, drawn_trace, stand_in
from tests.bench.engine.stand_ins import StandIns
from tests.bench.engine.summary import markdown, summary
from tests.bench.engine.trace import Trace, parse_trace
from tests.bench.held_out import full_hash
from tests.bench.results import commit

OUTPUT = Path("out/bench/engine")
TRACE, QUICK_TRACE = "1:60,24:60,2:50,12:50", "1:34,24:36,2:34"
TWIN_EXAMPLE = Path("examples/twin-h100.yaml")
ENGINES = (REAL, *(TWIN + name for name in TRACES))
PROXY_SECONDS = 10.0
TEMPERATURE = 0.0
FOR_STAND_INS = f"For stand-ins alone: {', '.join(ON_PROFILES)}."
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


@dataclass(frozen=True, slots=True)
class Run:
    """What is measured. trace: as it was written. twin: None where engines are real."""

    base: JsonObject
    twin: StandIn | None
    settings: Settings
    trace: str


@app.command()
def main(
    engine: Annotated[str, typer.Option(help="One of: " + ", ".join(ENGINES))] = REAL,
    pods: Annotated[int, typer.Option(min=1, help="Of stand-ins. A load's streams are those per pod.")] = 1,
    slow_pod: Annotated[float, typer.Option(min=1, help="Steps of one stand-in take so many times.")] = 1.0,
    trace: Annotated[
        str | None,
        typer.Option(help=f"streams:seconds, …, or {DRAWN}: from the commit's hash. Default: {TRACE}"),
    ] = None,
    prompts: Annotated[Prompts, typer.Option(help="What the streams ask for.")] = Prompts.CODE,
    seed: Annotated[int, typer.Option(help="Of the orders and of the prompts.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Default: result.json in --output.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"One repeat of {QUICK_TRACE}.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Traces of each policy. Default: 2.")] = None,
    rounds: Annotated[int | None, typer.Option(min=2, help="Slices of static tables. Default: 4.")] = None,
    arms: Annotated[
        str | None, typer.Option(help=f"Default: all. Some of: {', '.join(ARMS)}. {FOR_STAND_INS}")
    ] = None,
    slice_seconds: Annotated[float | None, typer.Option(min=2, help="Counted seconds. Default: 4.")] = None,
    switch_seconds: Annotated[float, typer.Option(min=1, help="Seconds for a push between slices.")] = 2.0,
    scrape_seconds: Annotated[float, typer.Option(min=1, help="Prometheus' interval for the run.")] = 10.0,
    tick_seconds: Annotated[float, typer.Option(min=1, help="The operator's interval for the run.")] = 10.0,
    keep_pace: Annotated[bool, typer.Option("--keep-pace", help="Leave both intervals as they are.")] = False,
    max_tokens: Annotated[int, typer.Option(help="Tokens of each answer.")] = 128,
    output: Annotated[Path, typer.Option(help="Folder of the journal, the result and the picture.")] = OUTPUT,
    restart: Annotated[bool, typer.Option("--restart", help="Forget what the folder holds.")] = False,
    example: Annotated[Path | None, typer.Option(help=f"SpeculativeModel as a base; {EXAMPLE}")] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the models.")] = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    kubectl: Kubectl = KUBECTL,
    client_image: ClientImage = CLIENT_IMAGE,
    ready_timeout: Annotated[float, typer.Option(help="Seconds until an engine must serve.")] = 300.0,
) -> None:
    """Compare Outrider with other policies, among them an oracle policy, on the same trace.

    An interrupted run continues after its last finished unit.
    """
    console = Console()
    if not console.is_terminal:
        console.width = LOG_WIDTH
    try:
        base, twin = _engine(engine, example, pods, slow_pod)
        usual = TRACES[twin.name] if twin else (TRACE, QUICK_TRACE)
        text = _drawn(twin) if trace == DRAWN else trace or usual[quick]
        settings = Settings(
            trace=_trace(text, prompts, base, max_tokens, twin),
            seed=seed,
            repeats=repeats or (1 if quick else 2),
            arms=_arms(arms, twin),
            candidates=SpeculativeModel.model_validate(base).spec.candidates(),
            rounds=rounds or (2 if quick else 4),
            slice_seconds=slice_seconds or (3.0 if quick else 4.0),
            switch_seconds=switch_seconds,
            scrape_seconds=scrape_seconds,
            tick_seconds=tick_seconds,
            max_tokens=max_tokens,
            manifest=yaml.safe_dump(base, sort_keys=True),
            pods=pods,
            slow_pod=slow_pod,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    place = Place(kubeconfig, context, kubectl)
    where = Where(place, namespace, client_image, ready_timeout, keep_pace, _folder(output, twin, pods))
    journal = Journal(where.output / "journal.jsonl", settings.fingerprint)
    if restart:
        journal.forget()
    try:
        run = Run(base, twin, settings, text)
        conditions, units = asyncio.run(_bench(where, run, journal, Progress(console)))
    except (RunFailed, ClusterError, OtherPlan) as error:
        told = f"The benchmark stopped: {error}\nThe same command goes on after the last finished unit."
        Console(stderr=True).print(told, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted. The same command goes on after the last finished unit.")
        raise typer.Exit(130) from None
    analysis = Analysis(settings.trace, units, twin.single_noise) if twin else Analysis(settings.trace, units)
    found = result(analysis, conditions, _predictions(run, analysis))
    written = [found.write(json or where.output / "result.json")]
    written.append(picture.save(analysis, found, where.output / "report.png"))
    if twin:
        written.append(where.output / "table.md")
        written[-1].write_text(markdown(found), encoding="utf-8")
    for table in summary(found):
        console.print(table)
    console.print("Written: " + ", ".join(map(str, written)), markup=False, highlight=False, soft_wrap=True)


def _engine(
    engine: str, example: Path | None, pods: int, slow_pod: float
) -> tuple[JsonObject, StandIn | None]:
    """The SpeculativeModel to take as a base; None: its engines are real."""
    if engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}, known are: {', '.join(ENGINES)}")
    if engine == REAL and (pods, slow_pod) != (1, 1.0):
        raise ValueError("--pods and --slow-pod are for stand-ins")
    if slow_pod != 1.0 and pods == 1:
        raise ValueError("--slow-pod needs more than one pod")
    path = example or (EXAMPLE if engine == REAL else TWIN_EXAMPLE)
    base: JsonObject = yaml.safe_load(path.read_text(encoding="utf-8"))
    if engine == REAL:
        return base, None
    twin = stand_in(base, engine.removeprefix(TWIN))
    return twin.manifest, twin


def _drawn(twin: StandIn | None) -> str:
    if twin is None:
        raise ValueError(f"--trace {DRAWN} is for stand-ins")
    return drawn_trace(twin, full_hash(commit().removesuffix("-dirty")))


def _trace(text: str, prompts: Prompts, base: JsonObject, max_tokens: int, twin: StandIn | None) -> Trace:
    trace = parse_trace(text, prompts, twin.texts if twin else ())
    longest = base["spec"]["model"].get("maxLength")
    context = max(phase.load.context for phase in trace)
    if longest is not None and context and context + NUMBER_BYTES + max_tokens > longest:
        raise ValueError(f"a prompt of {context} and an answer of {max_tokens} exceed maxLength {longest}")
    return trace


def _folder(output: Path, twin: StandIn | None, pods: int) -> Path:
    """Of its own for each stand-in, since each has its own journal."""
    return output / f"{twin.name}-x{pods}" if twin else output


def _profile(run: Run) -> OfflineProfile | None:
    return offline_profile(run.twin.settings, law_of(run.base), run.settings.seed) if run.twin else None


def _predictions(run: Run, analysis: Analysis) -> list[Prediction]:
    if run.twin is None:
        return []
    return predict(run.settings, run.twin.settings, law_of(run.base), analysis.arms)


def _arms(text: str | None, twin: StandIn | None) -> tuple[str, ...]:
    known = ARMS if twin else tuple(arm for arm in ARMS if arm not in ON_PROFILES)
    wanted = {arm.strip() for arm in text.split(",")} if text else set(known)
    if unknown := sorted(wanted - set(ARMS)):
        raise ValueError(f"unknown arm {unknown[0]!r}, known are: {', '.join(ARMS)}")
    if barred := sorted(wanted - set(known)):
        raise ValueError(f"arm {barred[0]!r} rests on an offline profile, and real engines have none")
    return tuple(arm for arm in known if arm in wanted)


@asynccontextmanager
async def _stand_ins(place: Place) -> AsyncIterator[StandIns]:
    async with api_proxy(place) as url, httpx.AsyncClient(base_url=url, timeout=PROXY_SECONDS) as client:
        yield StandIns(client)


async def _bench(
    where: Where, run: Run, journal: Journal, progress: Progress
) -> tuple[Conditions, list[UnitRecord]]:
    """Drive what the journal lacks; all units of the plan in its order."""
    base, settings = run.base, run.settings
    task = asyncio.current_task()
    assert task is not None
    # An ended run restores the pace, also after `kill`.
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
            async with (
                nullcontext() if where.keep_pace else pace,
                prometheus(where.place) as source,
                _stand_ins(where.place) if run.twin else nullcontext() as stand_ins,
            ):
                bench = Bench(
                    cluster=cluster,
                    engines={
                        plan.Engine.SPECULATIVE: Engine(
                            cluster, speculative_manifest(base, pods=settings.pods)
                        ),
                        plan.Engine.PLAIN: Engine(cluster, plain_manifest(base, pods=settings.pods)),
                    },
                    traffic=_traffic(where, cluster, run),
                    source=source,
                    settings=settings,
                    law=law_of(base),
                    ready_timeout=where.ready_timeout,
                    tell=progress.say,
                    stand_ins=stand_ins,
                    profile=_profile(run),
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
        return await _conditions(cluster, run, records), records
    finally:
        await cluster.client.aclose()


def _traffic(where: Where, cluster: Cluster, run: Run) -> Traffic:
    """Stand-ins answer a prompt that comes again as before: numbers make their texts as long as the run."""
    served = run.base["spec"]["model"].get("servedName") or plan.Engine.SPECULATIVE
    return Traffic(
        cluster,
        where.client_image,
        "",
        served,
        run.settings.max_tokens,
        TEMPERATURE,
        seed=run.settings.seed,
        numbered=run.twin is not None,
    )


async def _conditions(cluster: Cluster, run: Run, records: list[UnitRecord]) -> Conditions:
    settings = run.settings
    spec = SpeculativeModel.model_validate(run.base).spec
    around = await surroundings(cluster, spec, module="tests.bench.engine")
    began, ended = (
        datetime.fromtimestamp(moment, UTC)
        for moment in (
            min(one.start for unit in records for one in unit.stretches),
            max(one.end for unit in records for one in unit.stretches),
        )
    )
    return Conditions(
        **around.model_dump(),
        started=began.isoformat(timespec="seconds"),
        finished=ended.isoformat(timespec="seconds"),
        commit=commit(),
        plan=settings.fingerprint,
        trace=run.trace,
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
        load_average=[unit.load_average for unit in records],
        engine=TWIN + run.twin.name if run.twin else REAL,
        pods=settings.pods,
        slow_pod=settings.slow_pod,
    )


if __name__ == "__main__":
    app()
