"""The kubectl plugin of a release: its archive, and the manifest that krew reads."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import krew
from charts.version import ROOT, version

REPOSITORY = "https://git.example/team/outrider"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    assert krew.main(["--repository", f"{REPOSITORY}/", "--folder", str(tmp_path)]) == 0
    return tmp_path


@pytest.fixture
def spec(written: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((written / krew.MANIFEST).read_text())
    assert (found["kind"], found["metadata"]["name"]) == ("Plugin", "speculative")
    spec: dict[str, Any] = found["spec"]
    return spec


def test_the_manifest_names_the_version_and_the_archive_of_the_release(spec: dict[str, Any]) -> None:
    assert spec["version"] == f"v{version()}"
    wanted = f"{REPOSITORY}/releases/download/v{version()}/{krew.ARCHIVE}"
    assert {each["uri"] for each in spec["platforms"]} == {wanted}


def test_its_hash_is_that_of_the_archive(spec: dict[str, Any], written: Path) -> None:
    digest = hashlib.sha256((written / krew.ARCHIVE).read_bytes()).hexdigest()
    assert {each["sha256"] for each in spec["platforms"]} == {digest}


def test_the_archive_holds_the_files_that_the_manifest_takes(spec: dict[str, Any], written: Path) -> None:
    with tarfile.open(written / krew.ARCHIVE) as tar:
        names = tar.getnames()
        assert tar.getmember(krew.PROGRAM).mode == 0o755
    for each in spec["platforms"]:
        assert [file["from"] for file in each["files"]] == names
        assert each["bin"] in names


def test_the_program_runs_the_plugin_of_the_package() -> None:
    package = tomllib.loads((ROOT / "operator" / "pyproject.toml").read_text())["project"]
    assert krew.PROGRAM in package["scripts"]
    text = krew.script(version())
    assert f'--from "{package["name"]}=={version()}" {krew.PROGRAM} "$@"' in text
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0
