"""``outrider plan``: will it fit, what to expect, what does it cost; and a manifest to start with."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from outrider.api.methods import Method
from outrider.api.mistakes import did_you_mean
from outrider.cli.exit_codes import ExitCode, cannot, refused, say
from outrider.cli.manifest_file import ManifestRefused
from outrider.cli.plan_parts import CannotPlan, Options
from outrider.cli.plan_question import asked
from outrider.cli.plan_text import json_of, text_of_forecast, verdict_of
from outrider.cli.shared_options import Form, printed, with_shared_options
from outrider.sizing.architecture import Precision
from outrider.sizing.forecast import Forecast, forecast
from outrider.sizing.manifest import text_of
from outrider.sizing.memory import Verdict
from outrider.sizing.tasks import Task

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)

_MOST_GPUS = 64
_MOST_STREAMS = 65_536
_MOST_TOKENS = 100_000_000


def _names(choices: type[StrEnum]) -> str:
    return ", ".join(choices)


@with_shared_options
def plan(
    form: Form | None,
    file: Annotated[Path | None, typer.Argument(help="A SpeculativeModel. Or use --model.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of a model, or its config.json.")] = None,
    config: Annotated[Path | None, typer.Option(help="config.json of a model that is not known.")] = None,
    method: Annotated[str | None, typer.Option(help="How to draft. Default: as the drafter is.")] = None,
    drafter: Annotated[str | None, typer.Option(help="Name of a drafter, or its config.json.")] = None,
    weights: Annotated[
        str | None, typer.Option(help=f"{_names(Precision)}. Default: as the model's name says.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="Such as H100, B200, MI300X, or a node's label.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of one replica. Default: 1, or the file's.")] = None,
    gpu_memory: Annotated[
        str | None, typer.Option(help="Memory of one GPU, such as 80, 80GB (1e9 bytes) or 80GiB.")
    ] = None,
    gpu_bandwidth: Annotated[float | None, typer.Option(help="TB/s of its memory.")] = None,
    gpu_tflops: Annotated[float | None, typer.Option(help="TFLOPS, dense, 16 bits.")] = None,
    memory_share: Annotated[
        float | None,
        typer.Option(
            "--memory-share",
            "--gpu-memory-utilization",
            help="Of each GPU's memory, that vLLM takes. Default: the file's, or vLLM's.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help=f"{_names(Task)}. Default: chat. With a file: propose anew.")
    ] = None,
    acceptance: Annotated[
        float | None, typer.Option(help="Of every drafted position. Default: the task's.")
    ] = None,
    streams: Annotated[int | None, typer.Option(help="Requests at once. Default: 8.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens of a request with its answer. Default: the file's, or 4096.")
    ] = None,
    answer_tokens: Annotated[int | None, typer.Option(help="Mean length of an answer.")] = None,
    price_per_hour: Annotated[float | None, typer.Option(help="Dollars per GPU.")] = None,
    tables: Annotated[
        Path | None, typer.Option(help="Measured throughputs instead of the formula; as for simulate.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Which of them.")] = None,
    manifest: Annotated[bool, typer.Option("--manifest", help="Print nothing but the manifest.")] = False,
) -> None:
    """Before a launch: memory, speed, money, and a manifest to start with. Needs no cluster.

    Exit code 1: it does not fit. 2: bad input, or whether it fits is not known.
    """
    memory = None if gpu_memory is None else _gigabytes(gpu_memory)
    for option, number, most in (
        ("--gpus", gpus, _MOST_GPUS),
        ("--streams", streams, _MOST_STREAMS),
        ("--context", context, _MOST_TOKENS),
        ("--answer-tokens", answer_tokens, _MOST_TOKENS),
    ):
        if number is not None and not 1 <= number <= most:
            raise _refused(f"{option} is {number}, must be from 1 to {most}")
    for name, value in (
        ("--gpu-memory", memory),
        ("--gpu-bandwidth", gpu_bandwidth),
        ("--gpu-tflops", gpu_tflops),
        ("--price-per-hour", price_per_hour),
    ):
        if value is not None and not (0.0 < value < math.inf):
            raise _refused(f"{name} is {value:g}, must be above 0")
    if memory_share is not None and not 0.0 < memory_share <= 1.0:
        ratio = f"; write {memory_share / 100:g} for {memory_share:g} %" if 1 < memory_share <= 100 else ""
        raise _refused(f"--memory-share is {memory_share:g}, must be above 0 and at most 1{ratio}")
    if acceptance is not None and not 0.0 <= acceptance < 1.0:
        ratio = f"; write {acceptance / 100:g} for {acceptance:g} %" if 1 < acceptance < 100 else ""
        raise _refused(f"--acceptance is {acceptance:g}, must be from 0 to below 1{ratio}")
    options = Options(
        file=file,
        model=model,
        config=config,
        method=_one_of(Method, "--method", method),
        drafter=drafter,
        weights=_one_of(Precision, "--weights", weights),
        gpu=gpu,
        gpus=gpus,
        gpu_memory=memory,
        gpu_bandwidth=gpu_bandwidth,
        gpu_tflops=gpu_tflops,
        memory_share=memory_share,
        task=_one_of(Task, "--task", task),
        acceptance=acceptance,
        streams=streams,
        context=context,
        answer_tokens=answer_tokens,
        price_per_hour=price_per_hour,
        tables=tables,
        table=table,
    )
    try:
        wanted = asked(options)
        answer = forecast(wanted.question)
        made = wanted.manifest(answer)
    except ManifestRefused as error:
        raise refused("plan", error.lines) from error
    except (CannotPlan, ValueError) as error:
        raise _refused(str(error)) from error
    text = None if made is None else text_of(made, answer.proposal)
    verdict = answer.memory.verdict
    if form is not None:
        typer.echo(printed(json_of(wanted.question, answer, made), form))
    elif manifest and text is not None:
        typer.echo(text, nl=False)
    elif manifest:
        say("plan", _no_manifest(answer))
        raise typer.Exit(ExitCode.NOT_WELL if verdict is Verdict.TOO_LARGE else ExitCode.CANNOT)
    else:
        typer.echo(text_of_forecast(wanted.question, answer, text))
    if verdict is Verdict.TOO_LARGE:
        raise typer.Exit(ExitCode.NOT_WELL)
    if verdict is Verdict.NOT_KNOWN:
        say("plan", verdict_of(answer))
        raise typer.Exit(ExitCode.CANNOT)


def _no_manifest(answer: Forecast) -> str:
    if answer.memory.verdict in (Verdict.TOO_LARGE, Verdict.NOT_KNOWN):
        return verdict_of(answer)
    if answer.no_speeds is not None:
        return f"there is no K to propose: {answer.no_speeds}; write the manifest, and have it judged"
    return "--manifest: the file is judged as it is; add --task to have one proposed"


def _gigabytes(text: str) -> float:
    """Of 1e9 bytes; 2**30 bytes where the unit says so."""
    found = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?|inf|nan) ?(G|GB|Gi|GiB)?", text, re.IGNORECASE)
    if found is None:
        raise _refused(f"--gpu-memory is {text}; write GB (1e9 bytes), such as 80 or 80GB, or 80GiB")
    return float(found[1]) * (2**30 / 1e9 if "i" in (found[2] or "").lower() else 1.0)


def _one_of(choices: type[ChoiceT], option: str, text: str | None) -> ChoiceT | None:
    if text is None:
        return None
    try:
        return choices(text.lower())
    except ValueError as error:
        near = did_you_mean(text, choices)
        raise _refused(f"{option} is {text}; {near}use one of {_names(choices)}") from error


def _refused(complaint: str) -> typer.Exit:
    return cannot("plan", complaint)
