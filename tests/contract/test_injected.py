"""The plugin out of its image: files that an init container copied serve as those of an engine image do."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine_image.build import PACKAGES, Target, make_plugin
from tests.contract import engine_process, helper_plugins, quick_start
from tests.contract.engine import Engine, Launch, environment, launcher, running_engine, server_flags

pytestmark = pytest.mark.contract

OF_ONE_PROCESS = {"bootId", "startupProfile", "selfTest"}
"""Parts of the state that differ between two processes of the same launch."""
WITHOUT_CRYPTOGRAPHY = """
import sys
sys.modules["cryptography"] = None
"""


@pytest.fixture(scope="module")
def injected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as the engine's container mounts it: the wheels' files, which it cannot write."""
    built, folder = tmp_path_factory.mktemp("image"), tmp_path_factory.mktemp("volume") / "outrider"
    for package in PACKAGES[Target.PLUGIN]:
        with zipfile.ZipFile(make_plugin(package, tmp_path_factory.mktemp("wheel")).wheel) as wheel:
            wheel.extractall(built)
    shutil.copytree(built, folder)
    helper_plugins.install(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
    return folder


def stable(state: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in state.items() if key not in OF_ONE_PROCESS}


@pytest.mark.nightly("a pod of the cluster shows most of it")
def test_an_engine_with_the_plugin_beside_it_reports_the_same_state(
    injected: Path, engine: Engine, tmp_path: Path
) -> None:
    launch = Launch(plugins=(quick_start.NAME,))
    with running_engine(injected, tmp_path, launch, start=engine_process.begin) as beside:
        assert stable(beside.first_state) == stable(engine.first_state)
        pushed = {"term": 1, "epoch": 1, "leaseSeconds": 60, "schedule": [{"numSpeculativeTokens": 3}]}
        assert beside.put(pushed).is_success
        assert beside.state()["schedule"] == [{"numSpeculativeTokens": 3}]
        assert beside.complete(max_tokens=8)


def test_an_image_without_a_package_of_the_plugin_ends_with_its_name(injected: Path, tmp_path: Path) -> None:
    """An entry of the search path hides the package, as if the image lacked it."""
    log, hiding = tmp_path / "termination-log", tmp_path / "hiding"
    log.touch()
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(WITHOUT_CRYPTOGRAPHY)
    flags = server_flags(target=Path("org/model"), speculation=None, port=1)
    variables = environment(injected, PYTHONPATH=f"{hiding}:{injected}", OUTRIDER_TERMINATION_LOG=str(log))
    command = [str(engine_process.PYTHON), *launcher(flags)]
    ended = subprocess.run(command, env=variables, timeout=120, check=False)
    cause = json.loads(log.read_text())
    assert (ended.returncode, cause["reason"]) == (78, "EngineImageIncomplete")
    assert "no package cryptography" in cause["message"]
