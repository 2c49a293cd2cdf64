"""Starts vLLM's API server, or a worker of one, after a check of the paths that it needs.

``python -m outrider_engine.launch <flags of the API server>``
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from outrider_engine.http.termination_message import leave
from outrider_engine.vllm_adapter.processes import API_SERVER, HEADLESS, MODEL_FILES, serve_headless

CUBINS = ".cache/flashinfer-cubins"
EXIT_CONFIG = 78
"""EX_CONFIG of sysexits.h."""


def main(arguments: Sequence[str]) -> None:
    """Become the server, or a worker, or end with `EXIT_CONFIG` where a path is missing."""
    for role, path in local_paths(arguments).items():
        if not is_model(path):
            report("ModelNotFound", f"the {role} {path} does not exist or has no model configuration")
            sys.exit(EXIT_CONFIG)
    make_link_target()
    if HEADLESS in arguments:
        serve_headless(arguments)
    else:
        os.execv(sys.executable, [sys.executable, "-m", API_SERVER, *arguments])


def make_link_target() -> None:
    """Make the folder in the pod's home that FlashInfer's package links to; see the image's Dockerfile.

    A home that cannot be written stops nothing here: most models need no such folder.
    """
    with suppress(OSError, RuntimeError):
        (Path.home() / CUBINS).mkdir(parents=True, exist_ok=True)


def local_paths(arguments: Sequence[str]) -> dict[str, Path]:
    """The local paths of the model and the drafter in the server's flags; names of a hub are none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--model", nargs="?")
    parser.add_argument("--speculative-config", "--speculative_config", nargs="?")
    given, _ = parser.parse_known_args(arguments)
    named = {"model": given.model or "", "drafter": _drafter(given.speculative_config or "")}
    return {role: Path(name) for role, name in named.items() if name.startswith(("/", "./", "../"))}


def is_model(path: Path) -> bool:
    """True for a file, or a folder that holds a model's configuration."""
    return path.is_file() or any((path / name).is_file() for name in MODEL_FILES)


def report(reason: str, message: str) -> None:
    """Leave the cause where Kubernetes reads it: the termination log, and the last line of the log."""
    line = json.dumps({"reason": reason, "message": message})
    print(line, file=sys.stderr, flush=True)  # noqa: T201  the log of a process that has no logger yet
    leave(line)


def _drafter(speculative_config: str) -> str:
    try:
        config = json.loads(speculative_config)
    except ValueError:
        return ""
    model = config.get("model") if isinstance(config, dict) else None
    return model if isinstance(model, str) else ""


if __name__ == "__main__":
    main(sys.argv[1:])
