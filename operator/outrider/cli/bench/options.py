"""The options of ``outrider bench`` and ``outrider sweep`` that measurements need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from outrider.bench.texts import NotAShape, PromptSet, Shape, Task, shape_of
from outrider.cli.common.files import prompts_of
from outrider.cli.common.options import ClusterChoice, Prompts, Url
from outrider.cli.common.output import CommandError


@dataclass(frozen=True, slots=True)
class Requests:
    """What is sent to the model, and by which program."""

    prompts: Prompts = None
    prompt_set: Annotated[
        PromptSet | None, typer.Option(help="Prompt set that GuideLLM loads from the Hugging Face hub.")
    ] = None
    task: Annotated[
        Task | None, typer.Option(help="Task of Spec-Bench's question.jsonl, which --prompts names.")
    ] = None
    shape: Annotated[
        str | None,
        typer.Option(help="Tokens of synthetic prompts and answers, such as 512/256, in place of prompts."),
    ] = None
    max_tokens: Annotated[int, typer.Option(min=1, max=65_536, help="Longest answer, in tokens.")] = 128
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, max=2.0, help="Temperature of sampling; 0 is greedy. Default: the server's."),
    ] = None
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
    texts: PromptSet | Shape | Sequence[str]  # a sequence: prompts

    @property
    def max_tokens(self) -> int:
        """Longest answer, in tokens; a shape has its own."""
        return self.texts.answer if isinstance(self.texts, Shape) else self.requests.max_tokens


def texts_of(requests: Requests) -> PromptSet | Shape | Sequence[str]:
    """What to ask; CommandError where options contradict one another, or a file has no such prompts."""
    named = {"--prompts": requests.prompts, "--prompt-set": requests.prompt_set, "--shape": requests.shape}
    given = [option for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise CommandError(f"{given[0]} and {given[1]} both say what to ask; leave one of them out")
    if requests.task is not None and requests.prompts is None:
        raise CommandError("--task needs Spec-Bench's file; name it with --prompts question.jsonl")
    if requests.shape is not None:
        try:
            return shape_of(requests.shape)
        except NotAShape as error:
            raise CommandError(f"--shape: {error}") from error
    return requests.prompt_set or prompts_of(requests.prompts, task=requests.task)
