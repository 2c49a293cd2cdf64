"""What holds the command of a source, as messages name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """A container, or a command line as it is typed."""

    name: str
    script: str  # the name of a shell script in it
    remedy: str  # where Outrider cannot read the command
    other_program: str  # where it starts no engine
    in_pod: bool = True  # Kubernetes replaces $(NAME) in it


CONTAINER = Holder(
    "the container",
    "the container's shell script",
    "pass the vLLM command line: outrider import -- vllm serve MODEL --flag value",
    "name the container that does with --container",
)
COMMAND_LINE = Holder(
    "the command line",
    "the command line",
    "write the engine's own words: outrider import -- vllm serve MODEL --flag value",
    "begin it with one of these",
    in_pod=False,
)
