"""Starts vLLM's API server, or a worker of one, after a check of the packages and paths that it needs.

``python -m outrider_engine.launch <flags of the API server>``
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from outrider_engine.http.termination_message import leave
from outrider_engine.vllm_adapter.attention import OBSTACLE, speculative_config
from outrider_engine.vllm_adapter.processes import API_SERVER, HEADLESS, MODEL_FILES, serve_headless
from outrider_protocol.releases import ADAPTIVE_VERIFICATION

CUBINS = ".cache/flashinfer-cubins"
EXIT_CONFIG = 78
"""EX_CONFIG of sysexits.h."""
ATTENTION = "outrider_engine.vllm_adapter.attention"
ASKING_SECONDS = 180
"""It takes about as long as the imports of vLLM."""
_FIXED = (
    "To launch it, set spec.engine.args.attention-backend to a backend that can, such as TRITON_ATTN, or "
    "spec.speculation.verification: Fixed"
)


OLDEST_PYTHON = (3, 11)
PACKAGES = ("vllm", "cryptography")
"""What the plugin imports and does not bring. An image of someone else's may lack it."""


def main(arguments: Sequence[str]) -> None:
    """Become the server, or a worker, or end with `EXIT_CONFIG` where a package or a path is missing."""
    if (lack := image_lack()) is not None:
        report("EngineImageIncomplete", lack)
        sys.exit(EXIT_CONFIG)
    for role, path in local_paths(arguments).items():
        if not is_model(path):
            report("ModelNotFound", f"the {role} {path} does not exist or has no model configuration")
            sys.exit(EXIT_CONFIG)
    make_link_target()
    if HEADLESS not in arguments and (why := adaptive_obstacle(arguments)) is not None:
        report("AdaptiveVerificationUnavailable", f"{why}. {_FIXED}")
        sys.exit(EXIT_CONFIG)
    if HEADLESS in arguments:
        serve_headless(arguments)
    else:
        os.execv(sys.executable, [sys.executable, "-m", API_SERVER, *arguments])


def image_lack() -> str | None:
    """What the plugin needs and the image's Python does not have, with a remedy; None where it has all."""
    lacks = [f"no package {name}" for name in PACKAGES if find_spec(name) is None]
    if sys.version_info < OLDEST_PYTHON:
        present, oldest = (".".join(map(str, each[:2])) for each in (sys.version_info, OLDEST_PYTHON))
        lacks.append(f"version {present}, older than {oldest}")
    if not lacks:
        return None
    return (
        f"the Python of this image has {' and '.join(lacks)}, and Outrider's plugin needs it. Set "
        "spec.engine.image to an image that has it; leave it out for vLLM's own"
    )


def adaptive_obstacle(arguments: Sequence[str]) -> str | None:
    """Why vLLM would end after it has loaded the weights, as vLLM says before; None where it would not.

    Another process asks vLLM, so that nothing of it, such as memory of a GPU, stays in the server. Where it
    has no answer, vLLM starts and reports what is wrong.
    """
    if speculative_config(arguments).get(ADAPTIVE_VERIFICATION) is not True:
        return None
    asking = [sys.executable, "-m", ATTENTION, *arguments]
    try:
        asked = subprocess.run(asking, stdout=subprocess.PIPE, timeout=ASKING_SECONDS, check=True)
        found = json.loads(asked.stdout.splitlines()[-1])[OBSTACLE]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        note(f"Outrider starts vLLM without knowing whether it can verify adaptively: {type(error).__name__}")
        return None
    return None if found is None else str(found)


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
    given, _ = parser.parse_known_args(arguments)
    named = {"model": given.model, "drafter": speculative_config(arguments).get("model")}
    local = ("/", "./", "../")
    return {role: Path(n) for role, n in named.items() if isinstance(n, str) and n.startswith(local)}


def is_model(path: Path) -> bool:
    """True for a file, or a folder that holds a model's configuration."""
    return path.is_file() or any((path / name).is_file() for name in MODEL_FILES)


def report(reason: str, message: str) -> None:
    """Leave the cause where Kubernetes reads it: the termination log, and the last line of the log."""
    line = json.dumps({"reason": reason, "message": message})
    note(line)
    leave(line)


def note(line: str) -> None:
    """Write a line to the log of a process that has no logger yet."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
