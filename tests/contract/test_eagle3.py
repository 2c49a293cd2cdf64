"""An EAGLE-3 head in real vLLM: K changes while it runs, no token does, and with K=0 the head follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.contract import quick_start
from tests.contract.answers import PROMPTS, TOKENS, Answer, Comparison, answers_alone, compare
from tests.contract.engine import MODELS, Engine, Launch, running_engine
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import Samples, run_streams, scrape, settled
from tests.contract.test_equality import across_changes, assert_equal_up_to_noise

pytestmark = pytest.mark.contract

CANDIDATES = (0, 1, 2, 3)
STREAMS = 8
CHANCE = 0.2
"""More than the share of the most frequent byte in code: what a head could guess without looking."""


@pytest.fixture(scope="module")
def eagle3(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The tiny target with its tiny head."""
    speculation = {"method": "eagle3", "model": str(MODELS / "eagle3")}
    launch = Launch(speculation=speculation, candidates=CANDIDATES, plugins=(quick_start.NAME,))
    with running_engine(plugin, tmp_path_factory.mktemp("eagle3"), launch) as engine:
        yield engine


def counted_at(engine: Engine, term: int, epoch: int, k: int, name: str) -> Samples:
    """What a load of code counts under one K."""
    engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
    before = scrape(engine)
    tokens = run_streams(engine, streams=STREAMS, requests=1, max_tokens=TOKENS, name=name)
    return settled(engine, before=before, tokens=tokens)


def accepted(counted: Samples) -> Mapping[str, float]:
    """Share of accepted drafts by position."""
    drafts = counted.by("outrider:draft_tokens_total", "position")
    hits = counted.by("outrider:accepted_tokens_total", "position")
    return {position: hits.get(position, 0.0) / tokens for position, tokens in drafts.items()}


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


def test_with_k_0_the_head_follows_every_step(eagle3: Engine, term: int) -> None:
    """What it misses it could not read later: that takes hidden states, which nobody keeps."""
    counted = counted_at(eagle3, term, 1, 0, "zero")
    assert counted.total("outrider:steps_total", k="0") >= TOKENS
    assert counted.total("outrider:drafter_steps_skipped_total") == 0


def test_an_eagle3_head_changes_no_token(eagle3: Engine, term: int, plain: list[Answer]) -> None:
    compared = Comparison((), ())
    for epoch, k in enumerate((0, 3, 1), start=1):
        eagle3.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        compared += compare(plain[:2], answers_alone(eagle3, PROMPTS[:2]))
    changed, changes = across_changes(eagle3, term, (0, 3, 1))
    compared += compare(plain, changed)
    assert changes > len(CANDIDATES)
    assert_equal_up_to_noise(compared, "eagle3", changes=changes)
