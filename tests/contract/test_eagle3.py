"""An EAGLE-3 head in real vLLM: K changes while it runs, no token does, and with K=0 the head is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider_engine.idle_drafter.drafter_skip import MAX_STEPS
from tests.contract import drafter_witness, quick_start
from tests.contract.answers import Answer
from tests.contract.drafter_witness import ended_early
from tests.contract.engine import EAGLE3, Engine, Launch, running_engine
from tests.contract.equality import assert_no_token_changes, check
from tests.contract.gaps import (
    CAUGHT_UP,
    CHANCE,
    accepted,
    after_gaps,
    ask,
    assert_accepted_as_without_a_gap,
    assert_left_out,
    counted_at,
    push,
)
from tests.contract.measuring import scrape, settled

pytestmark = pytest.mark.contract

CANDIDATES = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def following(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The same, and the head follows every step, as vLLM has it."""
    launch = Launch(
        speculation=EAGLE3,
        candidates=CANDIDATES,
        plugins=(quick_start.NAME,),
        variables={"OUTRIDER_K0": "Sync"},
    )
    with running_engine(plugin, tmp_path_factory.mktemp("following"), launch) as engine:
        yield engine


@pytest.fixture(scope="module")
def eagle3(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The tiny target with its tiny head. Every pass of the head is written down."""
    folder = tmp_path_factory.mktemp("eagle3")
    launch = Launch(
        speculation=EAGLE3,
        candidates=CANDIDATES,
        plugins=(quick_start.NAME, drafter_witness.NAME),
        variables={drafter_witness.VARIABLE: str(folder / drafter_witness.FILE)},
    )
    with running_engine(plugin, folder, launch) as engine:
        yield engine


def test_it_can_be_tuned(eagle3: Engine) -> None:
    state = eagle3.first_state
    assert (state["method"], state["runner"], state["problems"]) == ("eagle3", "V1", [])
    assert state["liveTuning"] == {"possible": True, "reason": None}
    assert isinstance(state["selfTest"], dict)
    assert state["selfTest"]["state"] == "Passed"


def test_it_drafts_as_many_tokens_as_the_table_says(eagle3: Engine, term: int) -> None:
    """0, then 3, then 1, without a restart; every sum agrees with vLLM's own."""
    for epoch, k in enumerate((0, 3, 1), start=1):
        counted = counted_at(eagle3, term, epoch, k, f"drafts{k}_")
        assert sorted(counted.by("outrider:draft_tokens_total", "position")) == [str(i) for i in range(k)]
        assert not counted.disagreements()


def test_its_drafts_are_accepted_far_above_chance(eagle3: Engine, term: int) -> None:
    shares = accepted(counted_at(eagle3, term, 1, 3, "accepted"))
    print(shares)
    assert shares["0"] > 3 * CHANCE
    assert shares["2"] > CHANCE


def test_with_k_0_the_head_is_left_out_of_decoding(eagle3: Engine, term: int) -> None:
    assert_left_out(counted_at(eagle3, term, 1, 0, "zero"))


def test_what_it_missed_is_read_in_passes_that_end_once_the_cache_has_it(eagle3: Engine, term: int) -> None:
    file = eagle3.log_file.with_name(drafter_witness.FILE)
    before = ended_early(file)
    read = next(after_gaps(eagle3, term)).total(CAUGHT_UP)
    assert sum(ended_early(file)) - sum(before) == read > 0


def test_after_a_gap_its_drafts_are_accepted_as_if_there_had_been_none(
    eagle3: Engine, following: Engine, term: int
) -> None:
    assert_accepted_as_without_a_gap(eagle3, following, term)


def test_an_answer_is_a_prefix_of_the_next_turn_where_the_head_has_read_it(eagle3: Engine, term: int) -> None:
    """The hidden states of what it missed went with the request."""
    taken = {k: of_the_answer(eagle3, term, k) for k in (0, 1)}
    assert taken[0] == 0
    assert taken[1] > 0


def of_the_answer(engine: Engine, term: int, k: int) -> float:
    """Tokens of an answer, made under one K, that the next request takes over from the cache."""
    push(engine, term, k + 1, k)
    question = list(range(100 + k, 200))
    answer = ask(engine, question, max_tokens=MAX_STEPS - 6)
    before = scrape(engine)
    ask(engine, [*question, *answer], max_tokens=8)
    from_cache = settled(engine, before=before, tokens=8).total("vllm:prefix_cache_hits_total")
    return max(0.0, from_cache - len(question))


def test_an_eagle3_head_changes_no_token(eagle3: Engine, term: int, plain: list[Answer]) -> None:
    check(eagle3, term, plain, CANDIDATES, "eagle3")


def test_with_a_head_the_fast_loop_changes_no_token(eagle3: Engine, term: int, plain: list[Answer]) -> None:
    assert_no_token_changes(eagle3, term, plain, CANDIDATES, "eagle3")
