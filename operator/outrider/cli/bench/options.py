"""The options of ``outrider bench`` and ``outrider sweep`` that measurements need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from outrider.cli.common.options import ClusterChoice, Prompts, Url


@dataclass(frozen=True, slots=True)
class Requests:
    """What is sent to the model, and by which program."""

    prompts: Prompts = None
    max_tokens: Annotated[int, typer.Option(min=1, max=65_536, help="Longest answer, in tokens.")] = 128
    url: Url = None
    guidellm: Annotated[str, typer.Option(help="Command that starts GuideLLM.")] = "guidellm"
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random order of measurements.")] = 0


@dataclass(frozen=True, slots=True)
class Job:
    """The options of a bench or a sweep."""

    cluster: ClusterChoice
    name: str
    ks: tuple[int, ...]  # to measure; they must be candidates
    seconds: float  # of a measurement
    rounds: int
    requests: Requests
    prompts: Sequence[str]
