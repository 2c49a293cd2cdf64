"""The V2 runner at length, by Triton's interpreter: each method with both ways of scheduling.

`make test-v2` runs it, and not `make test`. `test_v2` has the short form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.engine.state import EngineState
from tests.contract.answers import TOKENS, Answer
from tests.contract.engine import CANDIDATES as EVERY_K
from tests.contract.engine import Engine, running_engine
from tests.contract.equality import assert_no_token_changes, check, drafted
from tests.contract.measuring import assert_every_token_is_counted
from tests.contract.random_pushes import assert_every_answer_is_the_contracts
from tests.contract.v2 import (
    ASYNCHRONOUS,
    SCHEDULING,
    SYNCHRONOUS,
    a_launch,
    an_mtp_launch,
    assert_drafts_follow,
    assert_tunable,
    is_asynchronous,
)

pytestmark = [pytest.mark.contract, pytest.mark.nightly("the interpreter takes 50 ms per step")]

BATCHES = 8
PATIENT = {"OUTRIDER_SWEEP": "1", "OUTRIDER_SWEEP_SHARE": "10", "OUTRIDER_SWEEP_SECONDS": "60"}
METHODS = ("eagle3", "mtp")


@pytest.fixture(scope="module", params=[(m, s) for m in METHODS for s in SCHEDULING], ids="-".join)
def drafting(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Engine]]:
    """An engine of each method with both ways of scheduling, and the name of the two."""
    method, scheduling = request.param
    folder = tmp_path_factory.mktemp(method)
    launch = an_mtp_launch(scheduling, folder) if method == "mtp" else a_launch(scheduling)
    with running_engine(plugin, folder, launch) as engine:
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
    accepted = drafted(engine, lambda: check(engine, term, plain, candidates(engine), f"v2_{name}"))
    assert accepted > TOKENS, "nothing was speculated, so nothing was compared"


def test_the_fast_loop_changes_no_token(drafting: tuple[str, Engine], term: int, plain: list[Answer]) -> None:
    name, engine = drafting
    assert_no_token_changes(engine, term, plain, candidates(engine), f"v2_{name}")


def test_every_token_is_counted_while_tables_change(drafting: tuple[str, Engine], term: int) -> None:
    _, engine = drafting
    assert_every_token_is_counted(engine, term, ks=(2, 0, 1, 2))


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
