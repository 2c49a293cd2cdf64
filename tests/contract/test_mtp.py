"""Multi-token prediction in real vLLM: a layer of the target's own checkpoint drafts. K changes while it
runs, and no token does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.models.mimo import assemble
from examples.models.pad import WEIGHTS
from tests.contract import quick_start
from tests.contract.answers import Answer
from tests.contract.engine import Engine, Launch, running_engine
from tests.contract.equality import assert_no_token_changes, check
from tests.contract.gaps import (
    CHANCE,
    accepted,
    assert_accepted_as_without_a_gap,
    assert_left_out,
    counted_at,
)

pytestmark = pytest.mark.contract

CANDIDATES = (0, 1, 2)
"""vLLM runs the one layer again for each further token."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny target as a MiMo model with its layer."""
    return assemble(WEIGHTS, tmp_path_factory.mktemp("mtp") / "mimo")


def a_launch(checkpoint: Path, **variables: str) -> Launch:
    """No drafter is named."""
    return Launch(
        speculation={"method": "mtp"},
        candidates=CANDIDATES,
        plugins=(quick_start.NAME,),
        flags=("--model", str(checkpoint)),
        variables=variables,
    )


@pytest.fixture(scope="module")
def mtp(plugin: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(plugin, tmp_path_factory.mktemp("mtp"), a_launch(checkpoint)) as engine:
        yield engine


@pytest.fixture(scope="module")
def following(plugin: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The same, and the layer follows every step, as vLLM has it."""
    launch = a_launch(checkpoint, OUTRIDER_K0="Sync")
    with running_engine(plugin, tmp_path_factory.mktemp("following"), launch) as engine:
        yield engine


def test_it_can_be_tuned(mtp: Engine) -> None:
    state = mtp.first_state
    assert (state["method"], state["runner"], state["problems"]) == ("mtp", "V1", [])
    assert state["liveTuning"] == {"possible": True, "reason": None}
    assert isinstance(state["selfTest"], dict)
    assert state["selfTest"]["state"] == "Passed"


def test_it_drafts_as_many_tokens_as_the_table_says_and_most_are_accepted(mtp: Engine, term: int) -> None:
    """0, then 2, then 1, without a restart; every sum agrees with vLLM's own."""
    for epoch, k in enumerate((0, 2, 1), start=1):
        counted = counted_at(mtp, term, epoch, k, f"mtp{k}_")
        shares = accepted(counted)
        print(k, shares)
        assert sorted(shares) == [str(position) for position in range(k)]
        assert all(share > 2 * CHANCE for share in shares.values())
        assert not counted.disagreements()


def test_with_k_0_the_layer_is_left_out_of_decoding(mtp: Engine, term: int) -> None:
    assert_left_out(counted_at(mtp, term, 1, 0, "mtp_zero"))


def test_after_a_gap_its_drafts_are_accepted_as_if_there_had_been_none(
    mtp: Engine, following: Engine, term: int
) -> None:
    assert_accepted_as_without_a_gap(mtp, following, term, k=CANDIDATES[-1])


def test_a_layer_that_drafts_changes_no_token(mtp: Engine, term: int, plain: list[Answer]) -> None:
    check(mtp, term, plain, CANDIDATES, "mtp")


def test_with_a_layer_the_fast_loop_changes_no_token(mtp: Engine, term: int, plain: list[Answer]) -> None:
    assert_no_token_changes(mtp, term, plain, CANDIDATES, "mtp")
