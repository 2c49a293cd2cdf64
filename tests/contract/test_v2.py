"""vLLM's V2 runner with the plugin, on a CPU by Triton's interpreter: the runner that vLLM takes on a GPU.

Kernels run as Python, so times say nothing here. What a step schedules, drafts, accepts and counts is vLLM's
own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract import asynchronous, engine_process
from tests.contract.engine import OWN_WORKER, Engine, environment, on_v2, running_engine
from tests.contract.v2 import SCHEDULING, a_launch, assert_drafts_follow

pytestmark = pytest.mark.contract

BACKENDS = "from vllm.triton_utils import HAS_TRITON; print('has Triton:', HAS_TRITON)"


@pytest.fixture(scope="module", params=SCHEDULING)
def eagle3(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("eagle3")
    with running_engine(plugin, folder, a_launch(request.param)) as engine:
        yield engine


def test_only_engines_of_v2_find_a_backend_of_triton(plugin: Path) -> None:
    """vLLM takes a CPU with one for a machine of the V2 runner."""
    for variables, found in (({}, False), (on_v2(plugin), True)):
        answer = engine_process.run(["-c", BACKENDS], environment(plugin, **variables), timeout=300)
        assert f"has Triton: {found}" in answer.log


def test_the_next_step_is_scheduled_while_one_is_computed(
    eagle3: Engine, request: pytest.FixtureRequest
) -> None:
    expected = request.node.callspec.params["eagle3"] == SCHEDULING[1]
    assert (asynchronous.QUEUED in eagle3.log_file.read_text()) == expected


def test_it_can_be_tuned(eagle3: Engine) -> None:
    state = eagle3.first_state
    assert (state["method"], state["runner"], state["problems"]) == ("eagle3", "V2", [])
    assert state["liveTuning"] == {"possible": True, "reason": None}
    assert isinstance(state["selfTest"], dict)
    assert state["selfTest"]["state"] == "Passed"


def test_it_drafts_as_many_tokens_as_the_table_says(eagle3: Engine, term: int) -> None:
    assert_drafts_follow(eagle3, term)


def test_a_worker_of_its_own_drafts_as_many_tokens_as_the_table_says(
    plugin: Path, tmp_path: Path, term: int
) -> None:
    """As on several GPUs: what the scheduler says reaches the worker by a message."""
    launch = replace(a_launch(SCHEDULING[1]), variables=OWN_WORKER)
    with running_engine(plugin, tmp_path, launch) as engine:
        assert_drafts_follow(engine, term, ks=(3, 0))
        assert asynchronous.QUEUED in engine.log_file.read_text()
