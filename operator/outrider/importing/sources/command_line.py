"""A vLLM command line as it is typed, without any object of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.importing.workload import Workload
from outrider.plan.overlay import Json


def of_command_line(words: Sequence[str]) -> Workload:
    """The workload of ``vllm serve …`` or ``python -m vllm.entrypoints.openai.api_server …``."""
    container: Json = {"name": "vllm", "command": list(words)}
    return Workload("command line", "", {"containers": [container]}, container="vllm", in_cluster=False)
