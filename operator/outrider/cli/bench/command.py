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
from outrider.bench.verdict import FEWEST_ROUNDS, Verdict
from outrider.cli.common.files import PromptsRefused, prompts_of
from outrider.cli.common.options import (
    MAX_STREAMS,
    ClusterChoice,
    GuideLlm,
    MaxTokens,
    Name,
    Prompts,
    Seconds,
    Seed,
    Url,
    Yes,
    with_shared_options,
)
from outrider.cli.common.output import ExitCode, Form, cannot, printed
from outrider.cli.common.results import require_charts, require_consent

_MAX_ROUNDS = 100


@with_shared_options
def bench(
    name: Name,
    cluster: ClusterChoice,
    form: Form | None,
    streams: Annotated[int, typer.Option(min=1, max=MAX_STREAMS, help="Requests at a time.")] = 8,
    seconds: Seconds = 20.0,
    rounds: Annotated[
        int, typer.Option(min=FEWEST_ROUNDS, max=_MAX_ROUNDS, help="Measurements of each arm.")
    ] = 4,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", help="Measure this K, too; may be repeated. Default: the largest candidate."),
    ] = None,
    prompts: Prompts = None,
    max_tokens: MaxTokens = 128,
    url: Url = None,
    guidellm: GuideLlm = "guidellm",
    seed: Seed = 0,
    save: Annotated[Path | None, typer.Option(help="File to write all measurements to, as JSON.")] = None,
    report: Annotated[Path | None, typer.Option(help="File to write an HTML page with charts to.")] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0.001, max=1e6, help="Dollars per hour for all GPUs that answer.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Measure what speculation gains on a live model.

    It compares the schedule in force, K=0 and other K in turn, by GuideLLM. It puts load on a live model.
    Meanwhile it overrides the schedule, and then removes the override.
    Exit code 1: speculation costs more than it gains.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.bench.driving import bench as drive
    from outrider.cli.bench.runner import Job
    from outrider.cli.common.results import Kept

    try:
        _require_folder("--save", save)
        _require_folder("--report", report)
        job = Job(cluster, name, tuple(k or ()), seconds, max_tokens, prompts_of(prompts), url, guidellm)
    except (Refused, PromptsRefused) as error:
        raise cannot("bench", error) from error
    if report is not None:
        require_charts("bench", "--report")
    require_consent("bench", _effect(name, f"{streams}"), given=yes)
    kept = Kept("bench", result.json_of, save)
    found = kept.by(
        drive(job, _tell, kept.keep, streams=streams, rounds=rounds, seed=seed, price_per_hour=price_per_hour)
    )
    if kept.ended is not None:
        found = replace(found, ended=kept.ended)
        kept.keep(found)
    told = result.json_of(found)
    typer.echo("\n".join(result.text_of(found)) if form is None else printed(told, form))
    if report is not None:
        kept.write(report, page_of(found, when=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"))
    kept.see_to_the_end()
    if told["verdict"] == Verdict.COSTS:
        raise typer.Exit(ExitCode.NOT_WELL)


@with_shared_options
def sweep(
    name: Name,
    save: Annotated[Path, typer.Option(help="File to write the table to, as JSON.")],
    cluster: ClusterChoice,
    form: Form | None,
    streams: Annotated[
        str, typer.Option(help="Numbers of requests at a time, separated by commas.")
    ] = "1,4,16",
    seconds: Seconds = 10.0,
    rounds: Annotated[
        int,
        typer.Option(
            min=FEWEST_ROUNDS, max=_MAX_ROUNDS, help="Measurements of each number of streams with each K."
        ),
    ] = 3,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", help="Measure this K; may be repeated. Default: all candidates."),
    ] = None,
    prompts: Prompts = None,
    max_tokens: MaxTokens = 128,
    url: Url = None,
    guidellm: GuideLlm = "guidellm",
    seed: Seed = 0,
    yes: Yes = False,
) -> None:
    """Measure tokens per second by streams and K.

    It writes the table that simulate and plan read. Use it in a quiet hour: it puts load on a live model,
    and overrides the schedule meanwhile.
    """
    from outrider.cli.bench.driving import sweep as drive
    from outrider.cli.bench.runner import Job
    from outrider.cli.common.results import Kept

    try:
        _require_folder("--save", save)
        numbers = _streams(streams)
        job = Job(
            cluster,
            name,
            tuple(dict.fromkeys(k or ())),
            seconds,
            max_tokens,
            prompts_of(prompts),
            url,
            guidellm,
        )
    except (Refused, PromptsRefused) as error:
        raise cannot("sweep", error) from error
    require_consent("sweep", _effect(name, f"up to {max(numbers)}"), given=yes)
    kept = Kept("sweep", sweeps.json_of, save)
    found = kept.by(drive(job, _tell, kept.keep, streams=numbers, rounds=rounds, seed=seed))
    told = sweeps.json_of(found)
    typer.echo("\n".join(sweeps.text_of(found)) if form is None else printed(told, form))
    kept.see_to_the_end()


def _effect(name: str, streams: str) -> str:
    return f"This sends {streams} requests at a time to {name}, and overrides its schedule meanwhile"


class Refused(ValueError):
    """Bad input; the message says what is wrong with which option."""


def _streams(text: str) -> tuple[int, ...]:
    found = []
    for part in text.split(","):
        number = part.strip()
        if not number.isdecimal() or not 1 <= int(number[:9]) <= MAX_STREAMS:
            raise Refused(f"--streams is {text}; write numbers from 1 to {MAX_STREAMS} such as 1,4,16")
        found.append(int(number))
    return tuple(dict.fromkeys(found))


def _require_folder(option: str, file: Path | None) -> None:
    """Refuse a file in a folder that does not exist, before minutes of measurements."""
    if file is not None and not file.parent.is_dir():
        raise Refused(f"{option}: there is no folder {file.parent}; make it, or name another file")


def _tell(line: str) -> None:
    typer.echo(line, err=True)
