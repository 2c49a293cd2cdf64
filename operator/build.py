"""Build the operator's image: ``python3 operator/build.py --tag registry.example.com/operator:0.1.0``.

The image gets exactly the wheels of the lock file, by hash, so the build needs no package index.
Plain Python 3.11 without packages; needs uv and Docker.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = os.environ.get("UV", "uv")
"""Variable in which `uv run` passes its own path. uv need not be on the PATH."""
PACKAGES = ("outrider", "outrider-protocol")
"""Packages of the project that the image contains."""
PIP = "pip==26.3"
"""Program that downloads the wheels; uv has no command for it."""
PROCESSORS = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""Image platform -> processor in the names of wheels. The build machine may have another processor."""
WHEELS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")


def fill(context: Path, *, python: str, platform: str) -> None:
    """Collect what the Dockerfile copies: the project's wheels and their dependencies for this platform.

    Raises:
        subprocess.CalledProcessError: uv or pip failed; its output gives the reason.
    """
    shutil.copy(ROOT / "operator" / "Dockerfile", context)
    for package in PACKAGES:
        _run(UV, "build", "--quiet", "--wheel", "--package", package, "--out-dir", str(context))
    lock = str(context / "requirements.txt")
    only = ("--package", "outrider", "--no-dev", "--no-emit-workspace")
    _run(UV, "export", "--quiet", "--frozen", *only, "--output-file", lock)
    fit = [word for wheels in WHEELS for word in ("--platform", f"{wheels}_{PROCESSORS[platform]}")]
    fit += ["--only-binary", ":all:", "--python-version", python]
    pip = (UV, "run", "--quiet", "--no-project", "--with", PIP, "python", "-m", "pip")
    wanted = ("--require-hashes", "--requirement", lock, "--dest", str(context / "wheels"))
    _run(*pip, "download", "--quiet", "--no-deps", *fit, *wanted)


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main(arguments: Sequence[str]) -> int:
    """Return the exit status of the failed command, or of `docker build`."""
    parser = argparse.ArgumentParser(prog="python3 operator/build.py", description=__doc__)
    parser.add_argument("--tag", required=True, help="name of the image")
    parser.add_argument("--base", help="another base image with Python, preferably with its digest")
    parser.add_argument("--python", default="3.13", help="Python version of the base image")
    parser.add_argument(
        "--platform",
        choices=PROCESSORS,
        default="linux/amd64",
        help="platform of the cluster's nodes, which may differ from this machine",
    )
    options = parser.parse_args(arguments)
    base = () if options.base is None else ("--build-arg", f"BASE={options.base}")
    with tempfile.TemporaryDirectory() as context:
        try:
            fill(Path(context), python=options.python, platform=options.platform)
        except subprocess.CalledProcessError as error:
            return int(error.returncode)
        build = ("docker", "build", "--platform", options.platform, *base, "--tag", options.tag, context)
        return subprocess.run(build, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
