"""Options and arguments that several commands share, each written down once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.completion import model_names

MOST_STREAMS = 4096

Name = Annotated[str, typer.Argument(help="Name of the SpeculativeModel.", autocompletion=model_names)]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Its namespace. Default: that of the context.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]
Seconds = Annotated[float, typer.Option(min=2, max=3600, help="Of a slice.")]
Prompts = Annotated[
    Path | None, typer.Option(help="A prompt per line, as text or as JSON with the key prompt.")
]
MaxTokens = Annotated[int, typer.Option(min=1, max=65_536, help="Of an answer.")]
Url = Annotated[
    str | None, typer.Option(help="Where the model answers. Default: a port is forwarded to one pod.")
]
GuideLlm = Annotated[str, typer.Option("--guidellm", help="How GuideLLM is run.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the order of slices.")]
