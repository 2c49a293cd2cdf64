"""The options of ``outrider plan``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from outrider.api.mistakes import did_you_mean
from outrider.cli.common.output import CommandError
from outrider.sizing.architecture import Precision
from outrider.sizing.tasks import Task
from outrider_protocol.methods import Method

_MAX_TOKENS = 100_000_000
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


def _names(choices: type[StrEnum]) -> str:
    return ", ".join(choices)


def _one_of(option: str, choices: type[ChoiceT], text: str) -> ChoiceT:
    try:
        return choices(text.lower())
    except ValueError as error:
        near = did_you_mean(text, choices)
        raise CommandError(f"{option} is {text}; {near}use one of {_names(choices)}") from error


def _gigabytes(text: str) -> float:
    """Memory in units of 1e9 bytes; 2**30 bytes where the unit says so."""
    found = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?|inf|nan) ?(G|GB|Gi|GiB)?", text, re.IGNORECASE)
    if found is None:
        raise CommandError(f"--gpu-memory is {text}; write GB (1e9 bytes), such as 80 or 80GB, or 80GiB")
    return float(found[1]) * (2**30 / 1e9 if "i" in (found[2] or "").lower() else 1.0)


@dataclass(frozen=True)
class Options:
    """The options of the command line; None: not given."""

    file: Annotated[
        Path | None, typer.Argument(help="File with a SpeculativeModel; without it, name --model and --gpu.")
    ] = None
    model: Annotated[
        str | None, typer.Option(help="Name of the model, such as Qwen3-8B, or the path of its config.json.")
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(help="Path of the config.json of a model that plan does not know, or of its folder."),
    ] = None
    method: Annotated[
        Method | None,
        typer.Option(
            parser=partial(_one_of, "--method", Method),
            metavar="TEXT",
            help="Method of speculation. Default: that of the drafter.",
        ),
    ] = None
    drafter: Annotated[
        str | None, typer.Option(help="Name of the drafter, or the path of its config.json.")
    ] = None
    weights: Annotated[
        Precision | None,
        typer.Option(
            parser=partial(_one_of, "--weights", Precision),
            metavar="TEXT",
            help=f"Format of the weights: {_names(Precision)}. Default: by the model's name.",
        ),
    ] = None
    gpu: Annotated[
        str | None, typer.Option(help="GPU, such as H100, B200 or MI300X, or the label of a node.")
    ] = None
    gpus: Annotated[
        int | None, typer.Option(help="Number of GPUs of one replica. Default: that of the file, or 1.")
    ] = None
    gpu_memory: Annotated[  # GB
        float | None,
        typer.Option(
            parser=_gigabytes,
            metavar="TEXT",
            help="Memory of one GPU, such as 80, 80GB (1e9 bytes) or 80GiB.",
        ),
    ] = None
    gpu_bandwidth: Annotated[float | None, typer.Option(help="Memory bandwidth of one GPU, in TB/s.")] = None
    gpu_tflops: Annotated[float | None, typer.Option(help="Dense 16-bit speed of one GPU, in TFLOPS.")] = None
    memory_share: Annotated[
        float | None,
        typer.Option(
            "--memory-share",
            "--gpu-memory-utilization",
            help="Ratio of each GPU's memory that vLLM takes. Default: that of the file, or vLLM's own.",
        ),
    ] = None
    task: Annotated[
        Task | None,
        typer.Option(
            parser=partial(_one_of, "--task", Task),
            metavar="TEXT",
            help=f"Kind of text: {_names(Task)}. Default: chat. With a file: propose K for it.",
        ),
    ] = None
    acceptance: Annotated[
        float | None,
        typer.Option(help="Acceptance rate at every position, from 0 to below 1. Default: that of the task."),
    ] = None
    streams: Annotated[int | None, typer.Option(help="Requests at a time. Default: 8.")] = None
    context: Annotated[
        int | None,
        typer.Option(help="Tokens of a request with its answer. Default: that of the file, or 4096."),
    ] = None
    answer_tokens: Annotated[
        int | None, typer.Option(help="Mean length of an answer in tokens. Default: that of the task.")
    ] = None
    price_per_hour: Annotated[float | None, typer.Option(help="Price of one GPU in dollars per hour.")] = None
    tables: Annotated[
        Path | None,
        typer.Option(help="File of measured throughputs, as for simulate, in place of the formula."),
    ] = None
    table: Annotated[str | None, typer.Option(help="Name of one table in that file.")] = None

    def __post_init__(self) -> None:
        for option, number, most in (
            ("--gpus", self.gpus, 64),
            ("--streams", self.streams, 65_536),
            ("--context", self.context, _MAX_TOKENS),
            ("--answer-tokens", self.answer_tokens, _MAX_TOKENS),
        ):
            if number is not None and not 1 <= number <= most:
                raise CommandError(f"{option} is {number}, must be from 1 to {most}")
        for name, value in (
            ("--gpu-memory", self.gpu_memory),
            ("--gpu-bandwidth", self.gpu_bandwidth),
            ("--gpu-tflops", self.gpu_tflops),
            ("--price-per-hour", self.price_per_hour),
        ):
            if value is not None and not (0.0 < value < math.inf):
                raise CommandError(f"{name} is {value:g}, must be above 0")
        share, rate = self.memory_share, self.acceptance
        if share is not None and not 0.0 < share <= 1.0:
            ratio = f"; write {share / 100:g} for {share:g} %" if 1 < share <= 100 else ""
            raise CommandError(f"--memory-share is {share:g}, must be above 0 and at most 1{ratio}")
        if rate is not None and not 0.0 <= rate < 1.0:
            ratio = f"; write {rate / 100:g} for {rate:g} %" if 1 < rate < 100 else ""
            raise CommandError(f"--acceptance is {rate:g}, must be from 0 to below 1{ratio}")
