"""vLLM's processes: how they start, and what they log as they end.

Source: vLLM 0.32.0, `vllm.entrypoints`, `vllm.v1.engine.core.EngineCoreProc.run_engine_core` and
`vllm.v1.executor.multiproc_executor.WorkerProc.worker_main`: what ends them is logged with its error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

API_SERVER = "vllm.entrypoints.openai.api_server"
HEADLESS = "--headless"
MODEL_FILES = ("config.json", "params.json")
"""vLLM reads one of these first from a model folder."""

FATAL = {
    "vllm.v1.engine.core": ("EngineCore failed to start.", "EngineCore encountered a fatal error."),
    "vllm.v1.executor.multiproc_executor": ("WorkerProc failed to start.",),
}
"""By logger, the messages of vLLM for an error that ends the engine."""


def serve_headless(arguments: Sequence[str]) -> None:
    """Serve the leader on another node with the ranks of this one, until it ends.

    What ``vllm serve --headless`` does. Its own entry looks for a distribution named ``vllm``, which a build
    for CPUs is not.
    """
    # As vLLM's own entry does: a forked rank would share the threads of this process.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    import vllm.entrypoints.cli.serve as serve

    flags = serve.make_arg_parser(serve.FlexibleArgumentParser()).parse_args(list(arguments))
    serve.validate_parsed_serve_args(flags)
    serve.ServeSubcommand.cmd(flags)
