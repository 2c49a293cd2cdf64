"""``outrider bench`` and ``outrider sweep``: what speculation gains on a live model."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from outrider.bench import result
from outrider.bench import sweep as sweeps
from outrider.bench.report import page_of
from outrider.bench.verdict import MIN_ROUNDS, Verdict
from outrider.cli.bench.options import Job, Requests, texts_of
from outrider.cli.common.completion import Name
from outrider.cli.common.options import (
    MAX_STREAMS,
    ClusterChoice,
    Seconds,
    Yes,
    with_shared_options,
)
from outrider.cli.common.output import (
    CommandError,
    ExitCode,
    Form,
    printed,
    require_charts,
    require_consent,
)

_MAX_ROUNDS = 100


@with_shared_options
def bench(
    *,
    name: Name,
    streams: Annotated[int, typer.Option(min=1, max=MAX_STREAMS, help="Requests at a time.")] = 8,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.01, max=1e4, help="Requests per second, with random pauses, in place of --streams."
        ),
    ] = None,
    seconds: Seconds = 20.0,
    rounds: Annotated[
        int, typer.Option(min=MIN_ROUNDS, max=_MAX_ROUNDS, help="Measurements of each arm.")
    ] = 4,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", help="Measure this K, too; may be repeated. Default: the largest candidate."),
    ] = None,
    requests: Requests,
    save: Annotated[Path | None, typer.Option(help="File to write all measurements to, as JSON.")] = None,
    report: Annotated[Path | None, typer.Option(help="File to write an HTML page with charts to.")] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0.001, max=1e6, help="Dollars per hour for all GPUs that answer.")
    ] = None,
    yes: Yes = False,
    cluster: ClusterChoice,
    form: Form | None,
) -> None:
    """Measure what speculation gains on a live model.

    It compares the schedule in force, K=0 and other K in turn, by GuideLLM. It puts load on a live model.
    Meanwhile it overrides the schedule, and then removes the override.
    Exit code 1: speculation costs more than it gains.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.bench.driving import bench as drive
    from outrider.cli.common.results import Results

    _require_folder("--save", save)
    _require_folder("--report", report)
    job = Job(cluster, name, tuple(k or ()), seconds, rounds, requests, texts_of(requests))
    if report is not None:
        require_charts("--report")
    amount = f"{streams} requests at a time" if rate is None else f"{rate:g} requests per second"
    require_consent(_effect(name, amount), given=yes)
    results = Results("bench", result.json_of, save)
    found = results.of(
        drive(job, _notify, results.keep, streams=streams, rate=rate, price_per_hour=price_per_hour)
    )
    if results.ended is not None:
        found = replace(found, ended=results.ended)
        results.keep(found)
    wire = result.json_of(found)
    typer.echo("\n".join(result.text_of(found)) if form is None else printed(wire, form))
    if report is not None:
        results.write(report, page_of(found, when=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"))
    results.end()
    if wire["verdict"] == Verdict.COSTS:
        raise typer.Exit(ExitCode.NOT_WELL)


@with_shared_options
def sweep(
    *,
    name: Name,
    save: Annotated[Path, typer.Option(help="File to write the table to, as JSON.")],
    streams: Annotated[
        str, typer.Option(help="Numbers of requests at a time, separated by commas.")
    ] = "1,4,16",
    seconds: Seconds = 10.0,
    rounds: Annotated[
        int,
        typer.Option(
            min=MIN_ROUNDS, max=_MAX_ROUNDS, help="Measurements of each number of streams with each K."
        ),
    ] = 3,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", help="Measure this K; may be repeated. Default: all candidates."),
    ] = None,
    requests: Requests,
    yes: Yes = False,
    cluster: ClusterChoice,
    form: Form | None,
) -> None:
    """Measure tokens per second by streams and K.

    It writes the table that simulate and plan read. Use it in a quiet hour: it puts load on a live model,
    and overrides the schedule meanwhile.
    """
    from outrider.cli.bench.driving import sweep as drive
    from outrider.cli.common.results import Results

    _require_folder("--save", save)
    numbers, ks = _streams(streams), tuple(dict.fromkeys(k or ()))
    job = Job(cluster, name, ks, seconds, rounds, requests, texts_of(requests))
    require_consent(_effect(name, f"up to {max(numbers)} requests at a time"), given=yes)
    results = Results("sweep", sweeps.json_of, save)
    found = results.of(drive(job, _notify, results.keep, streams=numbers))
    typer.echo("\n".join(sweeps.text_of(found)) if form is None else printed(sweeps.json_of(found), form))
    results.end()


def _effect(name: str, amount: str) -> str:
    return f"This sends {amount} to {name}, and overrides its schedule meanwhile"


def _streams(text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(each.isdecimal() and 1 <= int(each[:9]) <= MAX_STREAMS for each in numbers):
        raise CommandError(f"--streams is {text}; write numbers from 1 to {MAX_STREAMS} such as 1,4,16")
    return tuple(dict.fromkeys(map(int, numbers)))


def _require_folder(option: str, file: Path | None) -> None:
    """Refuse a file in a folder that does not exist, before minutes of measurements."""
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"{option}: there is no folder {file.parent}; make it, or name another file")


def _notify(line: str) -> None:
    typer.echo(line, err=True)
