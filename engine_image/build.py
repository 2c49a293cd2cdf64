"""Builds the engine images, both from here: ``python3 -m engine_image.build gpu --tag engine:0.33.0``.

The plugin's wheel is made from the working tree, and its hash goes into the build, which verifies it,
and into the image's labels. Plain Python 3.11 without packages, because the set-up runs it before
anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "outrider-engine"
UV = os.environ.get("UV", "uv")
"""`uv run` names itself there; it need not be on the PATH."""


class Target(StrEnum):
    """Which of the two images."""

    GPU = "gpu"
    CPU = "cpu"


DOCKERFILES: Mapping[Target, Path] = {
    Target.GPU: ROOT / "engine_image" / "Dockerfile",
    Target.CPU: ROOT / "engine_image" / "Dockerfile.cpu",
}


@dataclass(frozen=True)
class Plugin:
    """A wheel of the plugin."""

    wheel: Path

    @property
    def version(self) -> str:
        """As in the wheel's name."""
        return self.wheel.name.split("-")[1]

    @property
    def sha256(self) -> str:
        """Of the wheel's bytes, in hexadecimal."""
        return hashlib.sha256(self.wheel.read_bytes()).hexdigest()

    def arguments(self) -> dict[str, str]:
        """The build arguments that pin it."""
        return {"PLUGIN_VERSION": self.version, "PLUGIN_SHA256": self.sha256}


def make_plugin(folder: Path) -> Plugin:
    """Build the wheel into a folder. The same source gives the same bytes.

    Raises:
        subprocess.CalledProcessError: uv has said why.
    """
    command = [UV, "build", "--quiet", "--wheel", "--package", PACKAGE, "--out-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return find_plugin(folder)


def find_plugin(folder: Path) -> Plugin:
    """The wheel that was built into a folder."""
    return Plugin(next(folder.glob("outrider_engine-*.whl")))


def main(arguments: Sequence[str]) -> int:
    """The exit status of `docker build`."""
    parser = argparse.ArgumentParser(prog="python3 -m engine_image.build", description=__doc__)
    parser.add_argument("target", type=Target, choices=list(Target))
    parser.add_argument("--tag", required=True, help="name of the image")
    parser.add_argument("--vllm-version", help="default: the newest that was checked, or 0.32.0 on CPU")
    parser.add_argument("--base", help="another base image, best with its digest")
    options = parser.parse_args(arguments)
    given = {"VLLM_VERSION": options.vllm_version, "BASE": options.base}
    with tempfile.TemporaryDirectory() as context:
        shutil.copy(DOCKERFILES[options.target], Path(context) / "Dockerfile")
        pinned = make_plugin(Path(context)).arguments()
        pinned |= {name: value for name, value in given.items() if value is not None}
        words = [word for name, value in pinned.items() for word in ("--build-arg", f"{name}={value}")]
        command = ["docker", "build", *words, "--tag", options.tag, context]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
