"""vLLM's V2 runner with the plugin, on a CPU by Triton's interpreter: the runner that vLLM takes on a GPU.

Kernels run as Python, so times say nothing here. What a step schedules, drafts, accepts and counts is vLLM's
own code. `test_v2_long` has what takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.runtimes.vllm.runner import TablePlace
from tests.contract import engine_process
from tests.contract.answers import TOKENS, Answer, answers_together, compare
from tests.contract.engine import (
    DRAFT_MODEL,
    EAGLE3,
    LIGHT_TARGET,
    OWN_WORKER,
    Engine,
    environment,
    launcher,
    running_engine,
    server_flags,
)
from tests.contract.equality import assert_equal_up_to_noise
from tests.contract.factories import a_constant, a_push
from tests.contract.last_words import kept, what_outrider_says
from tests.contract.measuring import run_streams, scrape, settled, wait_until
from tests.contract.probes import STREAMS, a_probe, loaded, post, probe_of
from tests.contract.v2 import (
    ASYNCHRONOUS,
    CANDIDATES,
    FEW,
    NGRAM_GPU,
    SCHEDULING,
    a_launch,
    an_mtp_launch,
    assert_drafts_follow,
    assert_pushes_change_no_token,
    assert_tunable,
    is_asynchronous,
)

pytestmark = pytest.mark.contract

PREEMPTIONS = "vllm:num_preemptions_total"
FAILURES = "outrider:hook_failures_total"
RECOMPUTED = "outrider:prefill_tokens_total"
"""The plugin counts tokens of a request that starts again, and vLLM's sum of prompts does not."""


@pytest.fixture(scope="module", params=SCHEDULING)
def eagle3(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("eagle3")
    with running_engine(plugin, folder, a_launch(request.param)) as engine:
        yield engine


@pytest.fixture(scope="module", params=["mtp", "draft_model", "ngram_gpu"])
def other(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Engine]]:
    """An engine of each other method, asynchronous, and its method."""
    method = str(request.param)
    folder = tmp_path_factory.mktemp(method)
    launch = {
        "mtp": lambda: an_mtp_launch(ASYNCHRONOUS, folder),
        "draft_model": lambda: a_launch(ASYNCHRONOUS, speculation=DRAFT_MODEL),
        "ngram_gpu": lambda: a_launch(ASYNCHRONOUS, speculation=NGRAM_GPU),
    }[method]()
    with running_engine(plugin, folder, launch) as engine:
        yield method, engine


def test_where_vllm_finds_no_backend_the_condition_says_so(plugin: Path) -> None:
    """As in all engines of the tests that run V1: they do not have it on their path."""
    flags = server_flags(target=LIGHT_TARGET, speculation=EAGLE3, port=1, table=TablePlace.FLAGS)
    variables = environment(plugin, VLLM_USE_V2_MODEL_RUNNER="1")
    ended = engine_process.run(launcher(flags), variables, timeout=300)
    said = what_outrider_says(kept(ended.returncode, b"", ended.log.encode()))
    assert "Model Runner V2 requires Triton" in said


def test_without_speculation_it_says_what_v1_says(plugin: Path, tmp_path: Path, plain: list[Answer]) -> None:
    with running_engine(plugin, tmp_path, a_launch(ASYNCHRONOUS, speculation=None)) as engine:
        assert engine.first_state["runner"] == "V2"
        compared = compare(plain[: len(FEW)], answers_together(engine, FEW))
    assert_equal_up_to_noise(compared, "v2_plain")


def test_the_next_step_is_scheduled_before_the_last_one_is_read(
    eagle3: Engine, request: pytest.FixtureRequest
) -> None:
    assert is_asynchronous(eagle3) == (request.node.callspec.params["eagle3"] == ASYNCHRONOUS)


def test_it_can_be_tuned(eagle3: Engine) -> None:
    assert_tunable(eagle3, "eagle3")


def test_it_drafts_as_many_tokens_as_the_table_says(eagle3: Engine, term: int) -> None:
    assert_drafts_follow(eagle3, term)


def test_pushes_under_load_change_no_token(eagle3: Engine, term: int, plain: list[Answer]) -> None:
    assert_pushes_change_no_token(eagle3, term, plain, CANDIDATES, "eagle3")


def test_each_slice_of_a_probe_runs_its_k_and_the_table_returns(eagle3: Engine, term: int) -> None:
    eagle3.put(a_push(term=term, schedule=a_constant(2))).raise_for_status()
    before = scrape(eagle3)
    slices = [{"numSpeculativeTokens": k, "steps": 6} for k in (3, 0)]
    with loaded(eagle3, tokens=32):
        post(eagle3, a_probe(term, "slices", *slices)).raise_for_status()
        wait_until(lambda: not probe_of(eagle3)["running"], "the probe did not end", seconds=300)
    probe = probe_of(eagle3)
    assert probe["reason"] == "Completed"
    three, none = probe["results"]
    cells = (scrape(eagle3) - before).by("outrider:steps_total", "k", batch="4-6")
    for found, k in ((three, 3), (none, 0)):
        assert found["numSpeculativeTokens"] == k
        assert 0 < found["steps"] <= 6
        assert STREAMS * found["steps"] <= found["scheduledRequests"] <= 6 * found["steps"]
        assert found["emittedTokens"] >= found["scheduledRequests"]
        assert cells[str(k)] >= found["steps"]
    assert eagle3.state()["schedule"] == a_constant(2)
    after = scrape(eagle3)
    run_streams(eagle3, streams=1, requests=1, max_tokens=8)
    assert set((scrape(eagle3) - after).by("outrider:steps_total", "k")) == {"2"}


def test_a_lone_request_is_in_the_cell_of_its_batch_and_k(eagle3: Engine, term: int) -> None:
    eagle3.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    before = scrape(eagle3)
    eagle3.complete(max_tokens=20)
    counted = settled(eagle3, before=before, tokens=20)
    assert set(counted.by("outrider:steps_total", "batch")) == {"1"}
    assert set(counted.by("outrider:steps_total", "k")) == {"3"}
    cell = {"batch": "1", "k": "3"}
    assert counted.total("outrider:emitted_tokens_total", **cell) == 20
    assert set(counted.by("outrider:draft_tokens_total", "position", **cell)) == {"0", "1", "2"}


def test_each_other_method_can_be_tuned(other: tuple[str, Engine]) -> None:
    method, engine = other
    assert_tunable(engine, method)
    assert is_asynchronous(engine)


def test_each_other_method_verifies_as_many_drafts_as_the_table_says(
    other: tuple[str, Engine], term: int
) -> None:
    _, engine = other
    assert_drafts_follow(engine, term, ks=(0, 2, 1))


def test_pushes_under_load_change_no_token_of_another_method(
    other: tuple[str, Engine], term: int, plain: list[Answer]
) -> None:
    """The texts repeat little, so n-gram finds little."""
    method, engine = other
    least = 0 if method == "ngram_gpu" else TOKENS / 4
    assert_pushes_change_no_token(engine, term, plain, (0, 1, 2), method, least_accepted=least)


def test_a_worker_of_its_own_drafts_as_many_tokens_as_the_table_says(
    plugin: Path, tmp_path: Path, term: int
) -> None:
    """As on several GPUs: what the scheduler says reaches the worker by a message."""
    launch = replace(a_launch(ASYNCHRONOUS), variables=OWN_WORKER)
    with running_engine(plugin, tmp_path, launch) as engine:
        assert_drafts_follow(engine, term, ks=(3, 0))
        assert is_asynchronous(engine)


def test_requests_that_give_way_to_each_other_change_no_token(
    plugin: Path, tmp_path: Path, term: int, plain: list[Answer]
) -> None:
    """So few blocks of KV cache that not all prompts fit with their answers."""
    flags = ("--max-model-len", "192", "--block-size", "32", "--num-gpu-blocks-override", "9")
    with running_engine(plugin, tmp_path, replace(a_launch(ASYNCHRONOUS), flags=flags)) as engine:
        before = scrape(engine)
        assert_pushes_change_no_token(engine, term, plain, CANDIDATES, "preempted")
        counted = settled(engine, before=before, tokens=len(FEW) * TOKENS)
    assert counted.total(PREEMPTIONS) > 0
    assert counted.total(FAILURES) == 0
    assert set(counted.disagreements()) <= {RECOMPUTED}
