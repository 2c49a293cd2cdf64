"""Scripts that ask vLLM's own code about GPUs that are only pretended, run with the source of any release."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine_image.testing.contract.wheels import cache_folder
from outrider_protocol.releases import CPU_RELEASE
from tests.contract.engine_process import QUIET, run

INSTALLED = CPU_RELEASE
"""Of other releases the Python files are laid over this one."""


def variables_of(release: str, folder: Path) -> dict[str, str]:
    """Environment in which a script finds this release of vLLM. folder: where vLLM may keep its cache.

    Skips the test where the archive of the release is not there: 300 MB are not fetched by every run.
    """
    variables = {"VLLM_CACHE_ROOT": str(folder)}
    if release != INSTALLED:
        archive = cache_folder() / f"vllm-{release}.zip"
        if not archive.exists():
            pytest.skip(f"no {archive.name} in the cache: `make contract` fetches it")
        variables["PYTHONPATH"] = str(_unpacked(archive))
    return variables


def run_script(script: Path, *arguments: str | Path, variables: Mapping[str, str]) -> None:
    """Run a script by the Python that has vLLM, and fail with its log where it fails."""
    done = run([str(script), *map(str, arguments)], {**os.environ, **QUIET, **variables}, timeout=600)
    assert done.returncode == 0, done.log[-4000:]


def _unpacked(archive: Path) -> Path:
    """Beside the archive, once for all runs: so the bytecode that Python writes there is kept as well."""
    folder = archive.with_suffix("")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch, zipfile.ZipFile(archive) as files:
            partial = Path(scratch) / "whole"
            files.extractall(partial)
            try:
                partial.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another run was first
                    raise
    return folder
