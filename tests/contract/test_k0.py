"""With K=0 the drafter is left out of decoding, and it knows every request that it drafts for later.

The drafter's passes are counted by a witness inside its model, whatever the plugin says of them. That no
token changes is for `test_equality`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract import blind_drafter, drafter_witness, quick_start
from tests.contract.answers import answers_alone, compare
from tests.contract.engine import OWN_WORKER, Engine, Launch, running_engine
from tests.contract.equality import across_changes, assert_equal_up_to_noise
from tests.contract.gaps import (
    CAUGHT_UP,
    SCHEDULED,
    SKIPPED,
    STREAMS,
    after_gaps,
    ask,
    assert_accepted_as_without_a_gap,
    push,
)
from tests.contract.measuring import run_streams, scrape, settled

pytestmark = pytest.mark.contract


def passes(engine: Engine) -> int:
    """How often the drafter has run."""
    return len(drafter_witness.passes(engine.log_file.with_name(drafter_witness.FILE)))


def test_with_k_0_only_steps_with_a_prompt_have_a_pass_of_the_drafter(engine: Engine, term: int) -> None:
    push(engine, term, 1, 0)
    before, begun = scrape(engine), passes(engine)
    tokens = run_streams(engine, streams=STREAMS, requests=1, max_tokens=60, name="only")
    counted = settled(engine, before=before, tokens=tokens)
    passed = passes(engine) - begun
    assert 0 < passed <= STREAMS
    assert counted.total(SKIPPED) == counted.total("outrider:steps_total", k="0") - passed > 0
    assert not counted.disagreements()


def test_with_k_above_0_every_step_has_its_passes(engine: Engine, term: int) -> None:
    push(engine, term, 1, 2)
    before, begun = scrape(engine), passes(engine)
    counted = settled(
        engine, before=before, tokens=run_streams(engine, streams=1, requests=1, max_tokens=60, name="two")
    )
    assert passes(engine) - begun == 2 * counted.total("outrider:steps_total")
    assert counted.total(SKIPPED) == 0


def test_no_token_changes_where_the_drafter_is_left_out(engine: Engine, following: Engine, term: int) -> None:
    """Against the same K=0 with a drafter that follows; `test_equality` has the engine without one."""
    push(following, term, 1, 0)
    followed = answers_alone(following)
    answers, changes = across_changes(engine, term, (0, 3, 0, 5))
    assert_equal_up_to_noise(compare(followed, answers), "left_out", changes=changes)


def test_after_a_gap_drafts_are_accepted_as_if_there_had_been_none(
    engine: Engine, following: Engine, term: int
) -> None:
    assert_accepted_as_without_a_gap(engine, following, term)


def test_what_was_missed_in_a_gap_is_read_once(engine: Engine, term: int) -> None:
    """In a step without the drafter each request misses one token; steps with prompts are not without it."""
    counted = next(after_gaps(engine, term))
    decoded, steps = counted.total(SCHEDULED, k="0"), counted.total("outrider:steps_total", k="0")
    with_drafter = steps - counted.total(SKIPPED)
    assert decoded - STREAMS * with_drafter <= counted.total(CAUGHT_UP) <= decoded


def test_a_request_that_continues_an_answer_has_its_drafter_read_what_it_missed_there(
    engine: Engine, term: int
) -> None:
    push(engine, term, 1, 0)
    question = list(range(100, 200))
    answer = ask(engine, question, max_tokens=200)
    push(engine, term, 2, 3)
    before = scrape(engine)
    ask(engine, [*question, *answer, *question[:20]], max_tokens=8)
    counted = settled(engine, before=before, tokens=8)
    from_cache = counted.total("vllm:prefix_cache_hits_total")
    assert from_cache > len(question)
    assert counted.total(CAUGHT_UP) >= from_cache - len(question)


def test_a_fault_in_a_worker_ends_the_skip_and_the_state_says_so(
    plugin: Path, tmp_path: Path, term: int
) -> None:
    """The worker is a process of its own, so the fault comes with the output of a step."""
    launch = Launch(plugins=(quick_start.NAME, blind_drafter.NAME), variables=OWN_WORKER)
    with running_engine(plugin, tmp_path, launch) as engine:
        for epoch, k in enumerate((0, 1), start=1):
            push(engine, term, epoch, k)
            engine.complete(max_tokens=8)
        found: Any = engine.state()["idleDrafter"]
        assert not found["skipped"]
        assert blind_drafter.FAULT in found["reason"]
        before = scrape(engine)
        push(engine, term, 3, 0)
        engine.complete(max_tokens=8)
        assert settled(engine, before=before, tokens=8).total(SKIPPED) == 0
