"""The engine image holds the plugin of this tree, says so, and runs without privileges."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path, PurePosixPath

import pytest

from engine_image.build import PACKAGES, Plugin, Target, make_plugin
from tests.environment.place import ENGINE_IMAGE

pytestmark = pytest.mark.engine("real", "image")

BYTECODE = "__pycache__"
LIST_FILES = """
import hashlib, json, pathlib
root = pathlib.Path("/opt/outrider")
files = [path for path in root.rglob("*") if path.is_file()]
print(json.dumps({str(f.relative_to(root)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}))
"""
WHO_AND_WHAT = """
import os, importlib.metadata as metadata, outrider_engine
entries = [e.name for e in metadata.distribution("outrider-engine").entry_points]
print(os.getuid(), os.getgid(), outrider_engine.__version__, *sorted(entries))
"""


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {words[0]}: {done.stderr.strip()}"
    return done.stdout


def run_python(code: str) -> str:
    alone = ["--rm", "--network", "none", "--entrypoint", "/usr/bin/python3"]
    return docker("run", *alone, ENGINE_IMAGE, "-B", "-c", code)


@cache
def files() -> dict[str, str]:
    """Hashes by path under the plugin's folder."""
    found: dict[str, str] = json.loads(run_python(LIST_FILES))
    return found


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Plugin]:
    """Those of this tree, the plugin's own first."""
    return [make_plugin(package, tmp_path_factory.mktemp("wheel")) for package in PACKAGES[Target.CPU]]


@pytest.fixture(scope="module")
def plugin(wheels: list[Plugin]) -> Plugin:
    """The plugin's own."""
    return wheels[0]


@pytest.fixture(scope="module")
def config() -> dict[str, object]:
    """The image's configuration."""
    configuration: dict[str, object] = json.loads(docker("image", "inspect", ENGINE_IMAGE))[0]["Config"]
    return configuration


def test_the_image_is_that_of_this_tree(plugin: Plugin, config: dict[str, object]) -> None:
    labels = config["Labels"]
    assert isinstance(labels, dict)
    told = (labels.get("outrider.dev/plugin-version"), labels.get("outrider.dev/plugin-sha256"))
    assert told == (plugin.version, plugin.sha256)


def test_its_files_are_those_of_the_wheels_and_of_one_library(wheels: list[Plugin]) -> None:
    packed: dict[str, str] = {}
    for plugin in wheels:
        with zipfile.ZipFile(plugin.wheel) as wheel:
            packed |= {name: hashlib.sha256(wheel.read(name)).hexdigest() for name in wheel.namelist()}
    found = {name: digest for name, digest in files().items() if BYTECODE not in PurePosixPath(name).parts}
    beside = {name.split("/")[0].split("-")[0] for name in found.keys() - packed.keys()}
    assert {name: found.get(name) for name in packed} == packed
    assert beside == {"obstore", ".lock"}


def test_no_pod_has_to_compile_the_plugin() -> None:
    modules = {name for name in files() if name.endswith(".py")}
    compiled = {source_from_cache(name) for name in files() if name.endswith(".pyc")}
    assert modules
    assert compiled == modules


def test_it_runs_as_an_ordinary_user_with_the_plugins_entry_points(
    plugin: Plugin, config: dict[str, object]
) -> None:
    assert config["User"] == "1000:1000"
    uid, gid, version, *entries = run_python(WHO_AND_WHAT).split()
    assert (uid, gid, version) == ("1000", "1000", plugin.version)
    assert {"outrider", "outrider_api"} <= set(entries)


def test_a_wheel_of_another_hash_does_not_build(tmp_path: Path) -> None:
    """Only the step that verifies is built, on the image itself: it needs no package and no network."""
    (tmp_path / "plugin.whl").write_bytes(b"another wheel")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {ENGINE_IMAGE}\nUSER 0\nCOPY plugin.whl /tmp/plugin.whl\n"
        f'RUN echo "{"0" * 64}  /tmp/plugin.whl" | sha256sum --check --strict\n'
    )
    done = subprocess.run(
        ["docker", "build", "--quiet", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "FAILED" in done.stdout + done.stderr
