"""The GPU image without a GPU: ``make gpu-image``, every layer but the base.

The base is some 20 GB. In its place stands a Debian with the same Python, what the plugin imports, and a vLLM
in name only. On it `engine_image/Dockerfile` is built as it is; then the image must start as a pod starts it,
and find the plugin's entry points. Both images are removed again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from engine_image.build import UV, Target
from engine_image.build import main as build
from engine_image.releases import DEFAULT
from outrider_engine.launch import EXIT_CONFIG
from tests.environment.place import DEBIAN_IMAGE

PYTHON = "3.12"
"""That of vLLM's images."""
IMPORTED = ("cryptography", "fastapi", "prometheus-client")
"""What the plugin imports, apart from vLLM itself."""
BASE_TAG, TAG = "outrider/stand-in-base:check", "outrider/engine-gpu:check"
IGNORED = shutil.ignore_patterns("test", "tests", "__pycache__", "idlelib", "config-*", "site-packages")

DOCKERFILE = """ARG BASE
FROM ${BASE}
COPY python /usr/local
RUN ldconfig && python3 -c "import ssl, ctypes, cryptography.hazmat.primitives.asymmetric.ed25519"
"""
ENTRY_POINTS = """
import json, os, sys
from importlib.metadata import entry_points
groups = [entry_points(group=f"vllm.{kind}_plugins") for kind in ("general", "endpoint")]
loaded = {entry.name: entry.load().__module__ for group in groups for entry in group}
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "user": os.getuid(), "loaded": loaded}))
"""
EXPECTED = {
    "python": PYTHON,
    "user": 1000,
    "loaded": {"outrider": "outrider_engine.plugin", "outrider_api": "outrider_engine.http.endpoint"},
}


def stand_in(context: Path, python: Path) -> None:
    """What the base image is built from: this Python without its packages, and those that are imported."""
    ask = "import sys; print(sys.base_prefix)"
    prefix = Path(_output(str(python), "-c", ask).strip())
    libraries = context / "python" / "lib" / f"python{PYTHON}"
    shutil.copytree(prefix / "lib" / f"python{PYTHON}", libraries, ignore=IGNORED)
    for shared in prefix.glob("lib/libpython*.so*"):
        shutil.copy(shared, context / "python" / "lib")
    (context / "python" / "bin").mkdir()
    shutil.copy(prefix / "bin" / f"python{PYTHON}", context / "python" / "bin" / "python3")
    packages = libraries / "site-packages"
    install = [UV, "pip", "install", "--quiet", "--python", str(python), "--target", str(packages)]
    subprocess.run([*install, *IMPORTED], check=True)
    information = packages / f"vllm-{DEFAULT}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {DEFAULT}\n")
    (context / "Dockerfile").write_text(DOCKERFILE)


def faults() -> list[str]:
    """What the built image does not do."""
    found = []
    told = json.loads(_output("docker", "run", "--rm", "--entrypoint", "python3", TAG, "-c", ENTRY_POINTS))
    if told != EXPECTED:
        found.append(f"it tells {told}, not {EXPECTED}")
    started = subprocess.run(
        ["docker", "run", "--rm", TAG, "--model", "/nowhere"], capture_output=True, text=True, check=False
    )
    if started.returncode != EXIT_CONFIG or "ModelNotFound" not in started.stderr:
        found.append(f"the launcher ended with {started.returncode}: {started.stderr[-400:]}")
    return found


def main(arguments: Sequence[str]) -> int:
    """0 where the image is built and starts."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.image", description=__doc__)
    parser.add_argument("--python", type=Path, help=f"a Python {PYTHON}; default: the one that uv finds")
    parser.add_argument("--debian", default=DEBIAN_IMAGE, help="default: that of `make cluster`")
    given = parser.parse_args(arguments)
    python = given.python or Path(_output(UV, "python", "find", PYTHON).strip())
    try:
        with tempfile.TemporaryDirectory() as name:
            stand_in(Path(name), python)
            base = ["--build-arg", f"BASE={given.debian}", "--tag", BASE_TAG, name]
            subprocess.run(["docker", "build", "--quiet", *base], check=True)
        if build([Target.GPU, "--tag", TAG, "--base", BASE_TAG, "--vllm-version", DEFAULT]):
            return 1
        found = faults()
    finally:
        subprocess.run(["docker", "image", "rm", "--force", TAG, BASE_TAG], check=False)
    for fault in found:
        print(f"gpu-image: {fault}", file=sys.stderr)
    if not found:
        print("gpu-image: every layer but the base is built, the launcher starts, the entry points load")
    return 1 if found else 0


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
