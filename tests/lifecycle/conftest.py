"""Two generations of Helm, and the tree of an older release."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.lifecycle.releases import check_out


@pytest.fixture(scope="module", params=[3, 4], ids=["helm3", "helm4"])
def helm_generation(request: pytest.FixtureRequest) -> int:
    """Every test of a module with the one, then with the other."""
    return int(request.param)


@pytest.fixture(scope="module")
def helm_program(helm_generation: int) -> str:
    """Where it is."""
    found = os.environ.get("OUTRIDER_HELM3") if helm_generation == 3 else shutil.which("helm")
    if found is None:
        pytest.fail(f"Helm {helm_generation} is not here: run `make test-lifecycle`")
    return found


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the older release."""
    return check_out(tmp_path_factory.mktemp("older"))
