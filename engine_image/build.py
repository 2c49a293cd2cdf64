"""Builds the engine images, all from here: ``python3 -m engine_image.build gpu --tag engine:dev``.

A plugin's wheel is made from the working tree, and its hash goes into the build, which verifies it,
and into the image's labels. Plain Python 3.11 without packages, because the set-up runs it before
anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine_image.releases import CPU, DEFAULT, ROOT

UV = os.environ.get("UV", "uv")
"""`uv run` names itself there; it need not be on the PATH."""


class Target(StrEnum):
    """Which of the images."""

    GPU = "gpu"
    CPU = "cpu"
    TWIN = "twin"
    """The image of the CPU with the simulated engine on top."""
    SGLANG_CPU = "sglang-cpu"
    """The image of the CPU with what SGLang needs there, for tests. SGLang comes as a volume."""
    PLUGIN = "plugin"
    """The plugin alone, which an init container copies beside vLLM's own image."""


DOCKERFILES: Mapping[Target, Path] = {
    Target.GPU: ROOT / "engine_image" / "Dockerfile",
    Target.CPU: ROOT / "engine_image" / "Dockerfile.cpu",
    Target.TWIN: ROOT / "engine_image" / "testing" / "twin" / "Dockerfile",
    Target.SGLANG_CPU: ROOT / "engine_image" / "testing" / "sglang_cpu" / "Dockerfile",
    Target.PLUGIN: ROOT / "engine_image" / "Dockerfile.plugin",
}
PLUGIN = ("outrider-engine", "outrider-protocol")
PACKAGES: Mapping[Target, tuple[str, ...]] = {
    Target.GPU: PLUGIN,
    Target.CPU: PLUGIN,
    Target.TWIN: ("outrider-twin",),
    Target.SGLANG_CPU: ("outrider-sglang-cpu",),
    Target.PLUGIN: PLUGIN,
}
"""What each image adds to its base, the plugin itself first."""
ON_TOP = (Target.TWIN, Target.SGLANG_CPU)
"""Images that extend the one of the CPU."""
_ARGUMENTS: Mapping[str, str] = {"outrider_protocol": "PROTOCOL"}
"""Package -> beginning of its build arguments; PLUGIN for any other."""


@dataclass(frozen=True)
class Plugin:
    """A wheel of one package of the plugin."""

    wheel: Path

    @property
    def version(self) -> str:
        """The version in the wheel's name."""
        return self.wheel.name.split("-")[1]

    @property
    def sha256(self) -> str:
        """SHA-256 of the wheel's bytes, in hexadecimal."""
        return hashlib.sha256(self.wheel.read_bytes()).hexdigest()

    def arguments(self) -> dict[str, str]:
        """The build arguments that pin it."""
        name = _ARGUMENTS.get(self.wheel.name.split("-")[0], "PLUGIN")
        return {f"{name}_VERSION": self.version, f"{name}_SHA256": self.sha256}


VLLM_IMAGE = "vllm/vllm-openai"
"""The base of the image for GPUs, with the version as its tag."""


DEFAULT_VERSIONS: Mapping[Target, str] = {Target.GPU: DEFAULT, Target.CPU: CPU}
"""Which vLLM an image has by default. Images on top of another have that of it, the plugin alone none."""


def default_base(target: Target) -> str | None:
    """The base that a Dockerfile names; None where its build has to pass one."""
    found = re.search(r"^ARG BASE=(\S+)$", DOCKERFILES[target].read_text(), re.MULTILINE)
    return None if found is None else found[1]


def by_digest(image: str) -> str:
    """An image of a registry by the digest that its tag has now, pulled.

    Raises:
        subprocess.CalledProcessError: Docker has said why.
        LookupError: it comes from no registry.
    """
    subprocess.run(["docker", "pull", "--quiet", image], check=True, stdout=subprocess.DEVNULL)
    form = "{{range .RepoDigests}}{{println .}}{{end}}"
    inspect = ["docker", "image", "inspect", "--format", form, image]
    digests = subprocess.run(inspect, check=True, capture_output=True, text=True).stdout.split()
    pinned = re.compile(re.escape(image.rpartition(":")[0]) + "@sha256:[0-9a-f]{64}")
    for digest in digests:
        if pinned.fullmatch(digest):
            return digest
    raise LookupError(f"{image} has no digest of a registry: pass --base")


LIBRARIES = "libraries"
"""Folder of a build with what the plugin needs and vLLM does not bring."""
_OF_VLLM = ("cryptography", "typing-extensions")
_OLDEST_PYTHON = "3.11"


PROCESSORS = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""Platform of an image -> processor in the names of wheels. The machine that builds may have another one."""


def library_commands(
    uv: str, target: Target, context: Path, *, processor: str = platform.machine()
) -> tuple[Sequence[str], ...]:
    """Bring the folder of libraries into a build's context, by the hashes of the lock. Run them in `ROOT`.

    Images on top of another have those of their base. processor: of the image, as Python calls it.
    """
    if target in ON_TOP:
        return ()
    lock = str(context / "requirements.txt")
    left_out = [word for package in _OF_VLLM for word in ("--prune", package)]
    chosen = ("--package", "outrider-engine", "--no-dev", "--no-emit-workspace", *left_out)
    fit = ("--python-version", _OLDEST_PYTHON, "--python-platform", f"{processor}-manylinux_2_28")
    wheels = ("--only-binary", ":all:", "--no-deps", "--require-hashes", "--requirement", lock)
    return (
        (uv, "export", "--quiet", "--frozen", *chosen, "--output-file", lock),
        (uv, "pip", "install", "--quiet", *fit, *wheels, "--target", str(context / LIBRARIES)),
    )


def make_plugin(package: str, folder: Path) -> Plugin:
    """Build a package's wheel into a folder. The same source gives the same bytes.

    Raises:
        subprocess.CalledProcessError: uv has said why.
    """
    command = [UV, "build", "--quiet", "--wheel", "--package", package, "--out-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return find_plugin(package, folder)


def find_plugin(package: str, folder: Path) -> Plugin:
    """A package's wheel that was built into a folder."""
    return Plugin(next(folder.glob(f"{package.replace('-', '_')}-*.whl")))


def main(arguments: Sequence[str]) -> int:
    """The exit status of `docker build`."""
    parser = argparse.ArgumentParser(prog="python3 -m engine_image.build", description=__doc__)
    parser.add_argument("target", type=Target, choices=list(Target))
    parser.add_argument("--tag", required=True, help="name of the image")
    parser.add_argument("--vllm-version", help=f"default: {DEFAULT}, or {CPU} on CPU")
    parser.add_argument(
        "--base", help="another base image, best with its digest; `twin`, `sglang-cpu`: tag of the CPU engine"
    )
    parser.add_argument(
        "--platform",
        choices=PROCESSORS,
        help="of the cluster's nodes. Default for gpu and plugin: linux/amd64; else this machine's",
    )
    options = parser.parse_args(arguments)
    base, version = options.base, options.vllm_version or DEFAULT_VERSIONS.get(options.target)
    if base is None and options.target in ON_TOP:
        parser.error(f"`{options.target}` needs --base: the tag of the CPU engine that it extends")
    if base is None and options.target is Target.GPU:
        base = by_digest(f"{VLLM_IMAGE}:v{version}")
    published = options.target in (Target.GPU, Target.PLUGIN)
    wanted = options.platform or ("linux/amd64" if published else None)
    processor = platform.machine() if wanted is None else PROCESSORS[wanted]
    given = {"VLLM_VERSION": version, "BASE": base}
    with tempfile.TemporaryDirectory() as context:
        shutil.copy(DOCKERFILES[options.target], Path(context) / "Dockerfile")
        pinned: dict[str, str] = {}
        for package in PACKAGES[options.target]:
            pinned |= make_plugin(package, Path(context)).arguments()
        for command in library_commands(UV, options.target, Path(context), processor=processor):
            subprocess.run(command, cwd=ROOT, check=True)
        pinned |= {name: value for name, value in given.items() if value is not None}
        words = [word for name, value in pinned.items() for word in ("--build-arg", f"{name}={value}")]
        chosen = [] if wanted is None else ["--platform", wanted]
        docker = ["docker", "build", *chosen, *words, "--tag", options.tag, context]
        return subprocess.run(docker, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
