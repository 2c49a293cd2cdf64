"""vLLM's V2 runner with the plugin, on a CPU by Triton's interpreter: the runner that vLLM takes on a GPU.

Kernels run as Python, so times say nothing here. What a step schedules, drafts, accepts and counts is vLLM's
own code. `test_v2_long` has what takes longer, and the other combinations of method and scheduling.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.runtimes.vllm.runner import TablePlace
from tests.contract import engine_process
from tests.contract.answers import Answer
from tests.contract.engine import (
    EAGLE3,
    LIGHT_TARGET,
    Engine,
    environment,
    launcher,
    running_engine,
    server_flags,
)
from tests.contract.engine_process import fork_server
from tests.contract.factories import a_constant, a_push
from tests.contract.last_words import kept, what_outrider_says
from tests.contract.measuring import run_streams, scrape, wait_until
from tests.contract.probes import STREAMS, a_probe, loaded, post, probe_of
from tests.contract.v2 import (
    ASYNCHRONOUS,
    CANDIDATES,
    SYNCHRONOUS,
    a_launch_of,
    assert_each_k_runs,
    assert_pushes_change_no_token,
    assert_tunable,
    is_asynchronous,
)

pytestmark = pytest.mark.contract

AS_ON_A_GPU = ("eagle3", ASYNCHRONOUS)
LAUNCHES = (
    AS_ON_A_GPU,
    ("eagle3", SYNCHRONOUS),
    ("mtp", ASYNCHRONOUS),
    ("draft_model", ASYNCHRONOUS),
    ("ngram_gpu", ASYNCHRONOUS),
)
KS = {"eagle3": (0, 3, 1)}
"""MTP's head drafts two tokens, and the others do as it does."""
as_on_a_gpu = pytest.mark.parametrize("drafting", [AS_ON_A_GPU], indirect=True, ids="-".join)


@pytest.fixture(scope="module", params=LAUNCHES, ids="-".join)
def drafting(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Engine]]:
    """A method, its scheduling, and an engine of both."""
    method, scheduling = request.param
    if request.param == AS_ON_A_GPU:
        yield method, scheduling, request.getfixturevalue("on_v2")
        return
    folder = tmp_path_factory.mktemp(method)
    with running_engine(plugin, folder, a_launch_of(method, scheduling, folder)) as engine:
        yield method, scheduling, engine


def test_where_vllm_finds_no_backend_the_condition_says_so(plugin: Path) -> None:
    """As in all engines of the tests that run V1: they do not have it on their path."""
    flags = server_flags(target=LIGHT_TARGET, speculation=EAGLE3, port=1, table=TablePlace.FLAGS)
    variables = environment(plugin, VLLM_USE_V2_MODEL_RUNNER="1")
    ended = engine_process.run(launcher(flags), variables, timeout=300, start=fork_server)
    said = what_outrider_says(kept(ended.returncode, b"", ended.log.encode()))
    assert "Model Runner V2 requires Triton" in said


def test_each_k_runs_with_the_tokens_of_no_speculation_and_vllms_counts(
    drafting: tuple[str, str, Engine], term: int, plain: list[Answer]
) -> None:
    """The texts repeat little, so n-gram may find nothing."""
    method, scheduling, engine = drafting
    assert_tunable(engine, method)
    accepted = assert_each_k_runs(engine, term, plain, KS.get(method, (0, 2, 1)), f"{method}_{scheduling}")
    assert accepted > 0 or method == "ngram_gpu"
    # Whether the next step is scheduled before the last one is read.
    assert is_asynchronous(engine) == (scheduling == ASYNCHRONOUS)


@as_on_a_gpu
def test_pushes_under_load_change_no_token(
    drafting: tuple[str, str, Engine], term: int, plain: list[Answer]
) -> None:
    method, _, engine = drafting
    assert_pushes_change_no_token(engine, term, plain, CANDIDATES, method)


@as_on_a_gpu
def test_each_slice_of_a_probe_runs_its_k_and_the_table_returns(
    drafting: tuple[str, str, Engine], term: int
) -> None:
    _, _, engine = drafting
    engine.put(a_push(term=term, schedule=a_constant(2))).raise_for_status()
    before = scrape(engine)
    slices = [{"numSpeculativeTokens": k, "steps": 6} for k in (3, 0)]
    with loaded(engine, tokens=32):
        post(engine, a_probe(term, "slices", *slices)).raise_for_status()
        wait_until(lambda: not probe_of(engine)["running"], "the probe did not end", seconds=300)
    probe = probe_of(engine)
    assert probe["reason"] == "Completed"
    three, none = probe["results"]
    cells = (scrape(engine) - before).by("outrider:steps_total", "k", batch="4-6")
    for found, k in ((three, 3), (none, 0)):
        assert found["numSpeculativeTokens"] == k
        assert 0 < found["steps"] <= 6
        assert STREAMS * found["steps"] <= found["scheduledRequests"] <= 6 * found["steps"]
        assert found["emittedTokens"] >= found["scheduledRequests"]
        assert cells[str(k)] >= found["steps"]
    assert engine.state()["schedule"] == a_constant(2)
    after = scrape(engine)
    run_streams(engine, streams=1, requests=1, max_tokens=8)
    assert set((scrape(engine) - after).by("outrider:steps_total", "k")) == {"2"}
