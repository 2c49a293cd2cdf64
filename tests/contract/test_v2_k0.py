"""On vLLM's V2 runner, too, steps with K=0 skip the drafter, and it catches up before it drafts again.

By Triton's interpreter. A witness inside the drafter's model writes its passes down, whatever the plugin
counts. `test_v2` shows on engines that skip it, too, that no token changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import drafter_witness
from tests.contract.drafter_witness import ended_early
from tests.contract.engine import Engine, running_engine
from tests.contract.gaps import (
    CAUGHT_UP,
    SKIPPED,
    Gap,
    after_gaps,
    ask,
    assert_accepted_as_without_a_gap,
    push,
)
from tests.contract.measuring import run_streams, scrape, settled
from tests.contract.v2 import STREAMS, witnessed

pytestmark = pytest.mark.contract
INTERPRETED = pytest.mark.nightly("the interpreter takes 50 ms per step")

GAP = Gap(steps=40, streams=STREAMS)


@pytest.fixture
def skipping(on_v2: Engine) -> Engine:
    return on_v2


@pytest.fixture(scope="module")
def following(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The same, and the head follows every step, as vLLM has it."""
    folder = tmp_path_factory.mktemp("following")
    with running_engine(plugin, folder, witnessed(folder, OUTRIDER_K0="Sync")) as engine:
        yield engine


def file_of(engine: Engine) -> Path:
    return engine.log_file.with_name(drafter_witness.FILE)


def test_the_state_says_that_steps_skip_the_drafter(skipping: Engine) -> None:
    assert skipping.first_state["idleDrafter"] == {"skipped": True, "reason": None}


def test_with_k_0_only_steps_with_a_prompt_have_a_pass_of_the_drafter(skipping: Engine, term: int) -> None:
    assert_only_prompts_have_a_pass(skipping, term)


@INTERPRETED
@pytest.mark.parametrize("method", ["mtp", "draft_model"])
def test_another_drafter_is_skipped_and_accepted_after_a_gap_as_if_there_had_been_none(
    method: str, plugin: Path, tmp_path: Path, term: int
) -> None:
    """At most two drafts, as the layer of the tiny MTP model has it."""
    own, other = tmp_path / "skipping", tmp_path / "following"
    with (
        running_engine(plugin, own, witnessed(own, method=method)) as skipping,
        running_engine(plugin, other, witnessed(other, method=method, OUTRIDER_K0="Sync")) as following,
    ):
        assert_accepted_as_without_a_gap(skipping, following, term, k=2, gap=GAP)
        assert_only_prompts_have_a_pass(skipping, term, epoch=2)
        assert skipping.state()["idleDrafter"] == {"skipped": True, "reason": None}


def assert_only_prompts_have_a_pass(engine: Engine, term: int, *, epoch: int = 1) -> None:
    """Under K=0 the drafter runs where a request begins, by the witness and by what is counted.

    A request that begins later has the others catch up first, in a pass of their own.
    """
    push(engine, term, epoch, 0)
    before, begun = scrape(engine), len(drafter_witness.passes(file_of(engine)))
    tokens = run_streams(engine, streams=STREAMS, requests=1, max_tokens=30, name="only")
    counted = settled(engine, before=before, tokens=tokens)
    passed = len(drafter_witness.passes(file_of(engine))) - begun
    began = counted.total("outrider:steps_total", k="0") - counted.total(SKIPPED)
    assert 0 < began <= STREAMS
    assert began <= passed < 2 * began
    assert passed == began or counted.total(CAUGHT_UP) >= passed - began
    assert counted.total(SKIPPED) > 0
    assert not counted.disagreements()


@INTERPRETED
def test_after_a_gap_drafts_are_accepted_as_if_there_had_been_none(
    skipping: Engine, following: Engine, term: int
) -> None:
    assert_accepted_as_without_a_gap(skipping, following, term, gap=GAP)
    assert skipping.state()["idleDrafter"] == {"skipped": True, "reason": None}


@INTERPRETED
def test_what_it_missed_is_read_in_passes_that_end_once_the_cache_has_it(skipping: Engine, term: int) -> None:
    """A scheduler that is ahead of the worker counts up to K tokens per request too many."""
    before = ended_early(file_of(skipping))
    counted = next(after_gaps(skipping, term, gap=GAP)).total(CAUGHT_UP)
    read = sum(ended_early(file_of(skipping))) - sum(before)
    assert 0 <= counted - read <= 3 * STREAMS
    assert read > GAP.steps


@INTERPRETED
def test_an_answer_is_a_prefix_of_the_next_turn_where_the_head_has_read_it(
    skipping: Engine, term: int
) -> None:
    """The hidden states of what it missed went with the request."""
    assert tokens_of_the_answer_in_the_cache(skipping, term, k=0) == 0
    assert tokens_of_the_answer_in_the_cache(skipping, term, k=1) > 0


def tokens_of_the_answer_in_the_cache(engine: Engine, term: int, *, k: int) -> float:
    """Of an answer that was made under one K, as the next request takes it over."""
    push(engine, term, k + 1, k)
    question = list(range(100 + k, 150))
    answer = ask(engine, question, max_tokens=70)
    before = scrape(engine)
    ask(engine, [*question, *answer], max_tokens=4)
    from_cache = settled(engine, before=before, tokens=4).total("vllm:prefix_cache_hits_total")
    return max(0.0, from_cache - len(question))
