"""``outrider plan``: does it fit, what to expect, what it costs; and a manifest to start with."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from outrider.api.mistakes import did_you_mean
from outrider.cli.common.manifests import ManifestRefused
from outrider.cli.common.options import with_shared_options
from outrider.cli.common.output import ExitCode, Form, cannot, printed, refused, say
from outrider.cli.plan.parts import CannotPlan, Options
from outrider.cli.plan.question import asked
from outrider.cli.plan.text import json_of, text_of_forecast, verdict_of
from outrider.sizing.architecture import Precision
from outrider.sizing.forecast import Forecast, forecast
from outrider.sizing.manifest import text_of
from outrider.sizing.memory import Verdict
from outrider.sizing.tasks import Task
from outrider_protocol.methods import Method

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)

_MAX_GPUS = 64
_MAX_STREAMS = 65_536
_MAX_TOKENS = 100_000_000


def _names(choices: type[StrEnum]) -> str:
    return ", ".join(choices)


@with_shared_options
def plan(
    form: Form | None,
    file: Annotated[
        Path | None, typer.Argument(help="File with a SpeculativeModel; without it, name --model and --gpu.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model, such as Qwen3-8B, or the path of its config.json.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Path of the config.json of a model that plan does not know.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Method of speculation. Default: that of the drafter.")
    ] = None,
    drafter: Annotated[
        str | None, typer.Option(help="Name of the drafter, or the path of its config.json.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help=f"Format of the weights: {_names(Precision)}. Default: by the model's name."),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="GPU, such as H100, B200 or MI300X, or the label of a node.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help="Number of GPUs of one replica. Default: that of the file, or 1.")
    ] = None,
    gpu_memory: Annotated[
        str | None, typer.Option(help="Memory of one GPU, such as 80, 80GB (1e9 bytes) or 80GiB.")
    ] = None,
    gpu_bandwidth: Annotated[float | None, typer.Option(help="Memory bandwidth of one GPU, in TB/s.")] = None,
    gpu_tflops: Annotated[
        float | None, typer.Option(help="Dense 16-bit speed of one GPU, in TFLOPS.")
    ] = None,
    memory_share: Annotated[
        float | None,
        typer.Option(
            "--memory-share",
            "--gpu-memory-utilization",
            help="Ratio of each GPU's memory that vLLM takes. Default: that of the file, or vLLM's own.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help=f"Kind of text: {_names(Task)}. Default: chat. With a file: propose K for it."),
    ] = None,
    acceptance: Annotated[
        float | None,
        typer.Option(help="Acceptance rate at every position, from 0 to 1. Default: that of the task."),
    ] = None,
    streams: Annotated[int | None, typer.Option(help="Requests at a time. Default: 8.")] = None,
    context: Annotated[
        int | None,
        typer.Option(help="Tokens of a request with its answer. Default: that of the file, or 4096."),
    ] = None,
    answer_tokens: Annotated[
        int | None, typer.Option(help="Mean length of an answer in tokens. Default: that of the task.")
    ] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(help="Price of one GPU in dollars per hour.")
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(help="File of measured throughputs, as for simulate, in place of the formula."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Name of one table in that file.")] = None,
    manifest: Annotated[bool, typer.Option("--manifest", help="Print the manifest only.")] = False,
) -> None:
    """Plan a launch: memory, speed, price and a manifest.

    It needs no cluster.

    Exit code 1: the model does not fit. 2: bad input, or the memory is not known.
    """
    memory = None if gpu_memory is None else _gigabytes(gpu_memory)
    for option, number, most in (
        ("--gpus", gpus, _MAX_GPUS),
        ("--streams", streams, _MAX_STREAMS),
        ("--context", context, _MAX_TOKENS),
        ("--answer-tokens", answer_tokens, _MAX_TOKENS),
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
