"""Starts the ranks of one node without a server, for a leader on another node.

``python -m outrider_engine.worker <flags of the API server> --headless``

What ``vllm serve --headless`` does. Its own entry looks for a distribution named ``vllm``, which a build for
CPUs is not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Serve the leader until it ends."""
    # As vLLM's own entry does: a forked rank would share the threads of this process.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    from vllm.entrypoints.cli import serve

    flags = serve.make_arg_parser(serve.FlexibleArgumentParser()).parse_args(list(arguments))
    serve.validate_parsed_serve_args(flags)
    serve.ServeSubcommand.cmd(flags)


if __name__ == "__main__":
    main(sys.argv[1:])
