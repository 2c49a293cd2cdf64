"""``outrider bench`` and ``outrider sweep``: what speculation is worth on a live model."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from outrider.bench import result
from outrider.bench import sweep as sweeps
from outrider.bench.report import page_of
from outrider.bench.verdict import FEWEST_ROUNDS, Verdict
from outrider.cli.common_options import (
    MOST_STREAMS,
    GuideLlm,
    MaxTokens,
    Name,
    Namespace,
    Prompts,
    Seconds,
    Seed,
    Url,
)
from outrider.cli.exit_codes import ExitCode, cannot
from outrider.cli.prompts_file import PromptsRefused, prompts_of

_MOST_ROUNDS = 100


def bench(
    name: Name,
    namespace: Namespace = None,
    streams: Annotated[int, typer.Option(min=1, max=MOST_STREAMS, help="Requests at a time.")] = 8,
    seconds: Seconds = 20.0,
    rounds: Annotated[int, typer.Option(min=FEWEST_ROUNDS, max=_MOST_ROUNDS, help="Slices of each arm.")] = 4,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", help="Hold this K, too; repeat it. Default: the largest candidate."),
    ] = None,
    prompts: Prompts = None,
    max_tokens: MaxTokens = 128,
    url: Url = None,
    guidellm: GuideLlm = "guidellm",
    seed: Seed = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the JSON here, too.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with pictures here, as HTML.")] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0.001, max=1e6, help="Dollars of all GPUs that answer.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, with every slice.")] = False,
) -> None:
    """Measure what speculation is worth: as it is, K=0 and held K in turn, by GuideLLM.

    It sends load, and overrules the tuner meanwhile by an override, which it takes back.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.bench.driving import bench as drive
    from outrider.cli.bench.runner import Job
    from outrider.cli.kept import Kept

    try:
        _see_folder("--output", output)
        _see_folder("--report", report)
        job = Job(namespace, name, tuple(k or ()), seconds, max_tokens, prompts_of(prompts), url, guidellm)
    except (Refused, PromptsRefused) as error:
        raise cannot("bench", error) from error
    kept = Kept("bench", result.json_of, output)
    found = kept.by(
        drive(job, _tell, kept.keep, streams=streams, rounds=rounds, seed=seed, price_per_hour=price_per_hour)
    )
    if kept.ended is not None:
        found = replace(found, ended=kept.ended)
        kept.keep(found)
    told = result.json_of(found)
    typer.echo(json.dumps(told, indent=2, allow_nan=False) if as_json else "\n".join(result.text_of(found)))
    if report is not None:
        kept.write(report, page_of(found, when=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"))
    kept.see_to_the_end()
    if told["verdict"] == Verdict.COSTS:
        raise typer.Exit(ExitCode.NOT_WELL)


def sweep(
    name: Name,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the table here.")],
    namespace: Namespace = None,
    streams: Annotated[str, typer.Option(help="Requests at a time, separated by commas.")] = "1,4,16",
    seconds: Seconds = 10.0,
    rounds: Annotated[
        int, typer.Option(min=FEWEST_ROUNDS, max=_MOST_ROUNDS, help="Slices of each number with each K.")
    ] = 3,
    k: Annotated[
        list[int] | None, typer.Option("--k", help="This K; repeat it. Default: all candidates.")
    ] = None,
    prompts: Prompts = None,
    max_tokens: MaxTokens = 128,
    url: Url = None,
    guidellm: GuideLlm = "guidellm",
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, as in the file.")] = False,
) -> None:
    """Measure tokens per second over streams and K, and write the table that simulate reads.

    For a quiet hour: it sends load, and overrules the tuner by an override, which it takes back.
    """
    from outrider.cli.bench.driving import sweep as drive
    from outrider.cli.bench.runner import Job
    from outrider.cli.kept import Kept

    try:
        _see_folder("--output", output)
        numbers = _streams(streams)
        job = Job(
            namespace,
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
    kept = Kept("sweep", sweeps.json_of, output)
    found = kept.by(drive(job, _tell, kept.keep, streams=numbers, rounds=rounds, seed=seed))
    told = sweeps.json_of(found)
    typer.echo(json.dumps(told, indent=2, allow_nan=False) if as_json else "\n".join(sweeps.text_of(found)))
    kept.see_to_the_end()


class Refused(ValueError):
    """Bad input; the message says what is wrong with which option."""


def _streams(text: str) -> tuple[int, ...]:
    found = []
    for part in text.split(","):
        number = part.strip()
        if not number.isdecimal() or not 1 <= int(number[:9]) <= MOST_STREAMS:
            raise Refused(f"--streams is {text}: write numbers from 1 to {MOST_STREAMS} such as 1,4,16")
        found.append(int(number))
    return tuple(dict.fromkeys(found))


def _see_folder(option: str, file: Path | None) -> None:
    """Before minutes are spent on what cannot be written then."""
    if file is not None and not file.parent.is_dir():
        raise Refused(f"{option}: there is no folder {file.parent}")


def _tell(line: str) -> None:
    typer.echo(line, err=True)
