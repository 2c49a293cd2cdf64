"""``operator/build.py``: what goes into the operator's image, and what it is built by."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("operator_build", ROOT / "operator" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands in their order; each does nothing and is fine."""
    found: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        found.append(list(command))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_wheels_are_those_of_the_lock_by_their_hashes(build: ModuleType, ran: list[list[str]]) -> None:
    build.main(["--tag", "operator:x"])
    *built, export, download, _ = ran
    assert [command[command.index("--package") + 1] for command in built] == ["outrider", "outrider-protocol"]
    assert "--frozen" in export
    assert "--require-hashes" in download
    assert download[download.index("--requirement") + 1] == export[export.index("--output-file") + 1]


@pytest.mark.parametrize(("platform", "processor"), [("linux/amd64", "x86_64"), ("linux/arm64", "aarch64")])
def test_wheels_are_those_of_the_clusters_nodes_whatever_machine_builds(
    build: ModuleType, ran: list[list[str]], platform: str, processor: str
) -> None:
    build.main(["--tag", "operator:x", "--platform", platform])
    download = next(command for command in ran if "download" in command)
    wheels = [word for word in download if word.startswith("manylinux")]
    assert len(wheels) == 3
    assert all(word.endswith(f"_{processor}") for word in wheels)


def test_the_python_of_the_wheels_is_that_of_the_dockerfile(build: ModuleType, ran: list[list[str]]) -> None:
    build.main(["--tag", "operator:x"])
    wanted = ran[-2][ran[-2].index("--python-version") + 1]
    assert f"python:{wanted}-slim" in (ROOT / "operator" / "Dockerfile").read_text()
