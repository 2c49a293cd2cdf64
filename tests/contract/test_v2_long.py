"""The V2 runner at length, by Triton's interpreter: each method with both ways of scheduling.

`make test-nightly` runs it, and not `make test`. `test_v2` has the short form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.engine.state import EngineState
from tests.contract.answers import TOKENS, Answer, answers_together, compare
from tests.contract.engine import CANDIDATES as EVERY_K
from tests.contract.engine import OWN_WORKER, Engine, running_engine
from tests.contract.equality import (
    ANY_ACCEPTED,
    MANY_ACCEPTED,
    assert_equal_up_to_noise,
    assert_no_token_changes,
    check,
)
from tests.contract.measuring import (
    Samples,
    assert_a_lone_request_is_in_its_cell,
    assert_every_token_is_counted,
    scrape,
    settled,
)
from tests.contract.random_pushes import assert_every_answer_is_the_contracts
from tests.contract.v2 import (
    ASYNCHRONOUS,
    CANDIDATES,
    FEW,
    SCHEDULING,
    SYNCHRONOUS,
    a_launch,
    a_launch_of,
    assert_drafts_follow,
    assert_pushes_change_no_token,
    assert_tunable,
    is_asynchronous,
)

pytestmark = [pytest.mark.contract, pytest.mark.nightly("the interpreter takes 50 ms per step")]

BATCHES = 8
PATIENT = {"OUTRIDER_SWEEP": "1", "OUTRIDER_SWEEP_SHARE": "10", "OUTRIDER_SWEEP_SECONDS": "60"}
METHODS = ("eagle3", "mtp")
SHORTER = ("draft_model", "ngram_gpu")
PREEMPTIONS = "vllm:num_preemptions_total"
FAILURES = "outrider:hook_failures_total"
RECOMPUTED = "outrider:prefill_tokens_total"
"""The plugin counts tokens of a request that starts again, and vLLM's sum of prompts does not."""


@pytest.fixture(scope="module", params=[(m, s) for m in METHODS for s in SCHEDULING], ids="-".join)
def drafting(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Engine]]:
    """An engine of each method with both ways of scheduling, and the name of the two."""
    method, scheduling = request.param
    folder = tmp_path_factory.mktemp(method)
    with running_engine(plugin, folder, a_launch_of(method, scheduling, folder)) as engine:
        assert_tunable(engine, method)
        yield f"{method}_{scheduling}", engine


def candidates(engine: Engine) -> list[int]:
    found = engine.first_state["capturedK"]
    assert isinstance(found, list)
    return found


def test_it_drafts_as_many_tokens_as_the_table_says(drafting: tuple[str, Engine], term: int) -> None:
    name, engine = drafting
    assert_drafts_follow(engine, term, ks=candidates(engine))
    assert is_asynchronous(engine) == name.endswith("_asynchronous")


def test_every_k_gives_the_tokens_of_no_speculation(
    drafting: tuple[str, Engine], term: int, plain: list[Answer]
) -> None:
    name, engine = drafting
    check(engine, term, plain, candidates(engine), f"v2_{name}")


def test_the_fast_loop_changes_no_token(drafting: tuple[str, Engine], term: int, plain: list[Answer]) -> None:
    name, engine = drafting
    assert_no_token_changes(engine, term, plain, candidates(engine), f"v2_{name}")


def test_every_token_is_counted_while_tables_change(drafting: tuple[str, Engine], term: int) -> None:
    _, engine = drafting
    assert_every_token_is_counted(engine, term, ks=(2, 0, 1, 2))


def test_a_lone_request_is_in_the_cell_of_its_batch_and_k(drafting: tuple[str, Engine], term: int) -> None:
    _, engine = drafting
    assert_a_lone_request_is_in_its_cell(engine, term, k=max(candidates(engine)), tokens=20)


@pytest.mark.parametrize("scheduling", SCHEDULING)
@pytest.mark.parametrize("method", SHORTER)
def test_pushes_under_load_change_no_token_of_another_method(
    method: str, scheduling: str, plugin: Path, tmp_path: Path, term: int, plain: list[Answer]
) -> None:
    """The texts repeat little, so n-gram finds little."""
    enough = ANY_ACCEPTED if method == "ngram_gpu" else MANY_ACCEPTED
    with running_engine(plugin, tmp_path, a_launch_of(method, scheduling, tmp_path)) as engine:
        assert_drafts_follow(engine, term, ks=(0, 2, 1))
        name = f"{method}_{scheduling}"
        assert_pushes_change_no_token(engine, term, plain, (0, 1, 2), name, enough=enough)


def test_without_speculation_it_says_what_v1_says(plugin: Path, tmp_path: Path, plain: list[Answer]) -> None:
    with running_engine(plugin, tmp_path, a_launch(ASYNCHRONOUS, speculation=None)) as engine:
        assert engine.first_state["runner"] == "V2"
        compared = compare(plain[: len(FEW)], answers_together(engine, FEW))
    assert_equal_up_to_noise(compared, "v2_plain")


def test_a_worker_of_its_own_drafts_as_many_tokens_as_the_table_says(
    plugin: Path, tmp_path: Path, term: int
) -> None:
    """As on several GPUs: what the scheduler says reaches the worker by a message."""
    launch = replace(a_launch(ASYNCHRONOUS), variables=OWN_WORKER)
    with running_engine(plugin, tmp_path, launch) as engine:
        assert_drafts_follow(engine, term, ks=(3, 0))
        assert is_asynchronous(engine)


def preempted(counted: Samples) -> bool:
    return counted.total(PREEMPTIONS) > 0 and MANY_ACCEPTED(counted)


def test_requests_that_give_way_to_each_other_change_no_token(
    plugin: Path, tmp_path: Path, term: int, plain: list[Answer]
) -> None:
    """So few blocks of KV cache that not all prompts fit with their answers."""
    flags = ("--max-model-len", "192", "--block-size", "32", "--num-gpu-blocks-override", "9")
    with running_engine(plugin, tmp_path, replace(a_launch(ASYNCHRONOUS), flags=flags)) as engine:
        before = scrape(engine)
        assert_pushes_change_no_token(engine, term, plain, CANDIDATES, "preempted", enough=preempted)
        counted = settled(engine, before=before, tokens=len(FEW) * TOKENS)
    assert counted.total(FAILURES) == 0
    assert set(counted.disagreements()) <= {RECOMPUTED}


def test_random_pushes_are_answered_as_the_contract_says(plugin: Path, tmp_path: Path, term: int) -> None:
    launch = replace(a_launch(ASYNCHRONOUS), candidates=EVERY_K)
    with running_engine(plugin, tmp_path, launch) as engine:
        assert_every_answer_is_the_contracts(engine, term, batches=BATCHES)


@pytest.mark.parametrize("scheduling", [SYNCHRONOUS, ASYNCHRONOUS])
def test_its_startup_profile_has_cells_of_every_k(plugin: Path, tmp_path: Path, scheduling: str) -> None:
    launch = replace(a_launch(scheduling), variables=PATIENT)
    with running_engine(plugin, tmp_path, launch) as engine:
        state = EngineState.model_validate(engine.first_state)
        cells = {(cell.batch_size, cell.num_speculative_tokens) for cell in state.step_times}
        print(engine.first_state["startupProfile"], sorted(cells))
        assert {(1, k) for k in candidates(engine)} <= cells
        assert engine.first_state["source"] == "Static"
