"""Builds the operator's image: ``python3 operator/build.py --tag registry.example.com/operator:0.1.0``.

The wheels that go into it are those of the lock, by their hashes, so that the build itself asks no index.
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
"""`uv run` names itself there; it need not be on the PATH."""
PACKAGES = ("outrider", "outrider-protocol")
"""Of the project, that go into the image."""
PIP = "pip==26.3"
"""What fetches the wheels: uv has no such command."""
PROCESSORS = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""Platform of the image -> processor in the names of wheels. The machine that builds may have another one."""
WHEELS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")


def fill(context: Path, *, python: str, platform: str) -> None:
    """What the Dockerfile copies: wheels of the project, and those they need for this Python and platform.

    Raises:
        subprocess.CalledProcessError: uv or pip has said why.
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
    """The exit status of what failed, or of `docker build`."""
    parser = argparse.ArgumentParser(prog="python3 operator/build.py", description=__doc__)
    parser.add_argument("--tag", required=True, help="name of the image")
    parser.add_argument("--base", help="another image with Python, best with its digest")
    parser.add_argument("--python", default="3.13", help="version of Python in the base")
    parser.add_argument(
        "--platform",
        choices=PROCESSORS,
        default="linux/amd64",
        help="of the cluster's nodes, not of this machine",
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
