"""vLLM's adaptive verification with the plugin: real drafts are trimmed, on a CPU by Triton's interpreter.

Step costs are given (`adaptive`), so the tests say which drafts count as what, and nothing about speed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract import adaptive
from tests.contract.answers import TOKENS
from tests.contract.engine import EAGLE3, OWN_WORKER, Engine, Launch, running_engine
from tests.contract.equality import across_changes
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import Samples, run_streams, scrape, settled
from tests.contract.v2 import CANDIDATES, FEW, SCHEDULING, SHORT, STREAMS, a_launch, counted_at

pytestmark = pytest.mark.contract
INTERPRETED = pytest.mark.nightly("the interpreter takes 50 ms per step")

ADAPTIVE = {**EAGLE3, "enable_adaptive_verification": True}
SYNCHRONOUS, ASYNCHRONOUS = SCHEDULING
PROMPTS = ("def read_lines(path):", "import os")


def an_adaptive_launch(scheduling: str) -> Launch:
    return a_launch(scheduling, speculation=ADAPTIVE, plugins=(adaptive.NAME,))


@pytest.fixture(scope="module")
def trimming(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """As on one GPU: with asynchronous scheduling, and the worker in the core."""
    launch = an_adaptive_launch(ASYNCHRONOUS)
    with running_engine(plugin, tmp_path_factory.mktemp("adaptive"), launch) as engine:
        yield engine


def by_position(drafts: Sequence[int]) -> list[int]:
    """Tokens at each position, of drafts by request."""
    return [sum(count > position for count in drafts) for position in range(max(CANDIDATES))]


class Log:
    """What vLLM's worker has written about its trimmed steps from here on."""

    def __init__(self, engine: Engine) -> None:
        self._file = engine.log_file
        self._begin = self._file.stat().st_size

    def steps(self) -> list[dict[str, list[int]]]:
        written = self._file.read_bytes()[self._begin :].decode(errors="replace")
        return [json.loads(text) for text in re.findall(rf"{adaptive.STEP}(\{{.*\}})", written)]

    def tokens(self, key: str) -> list[int]:
        """By position. key: ``scheduled`` or ``verified``."""
        return by_position([drafts for step in self.steps() for drafts in step[key]])


def counts(counted: Samples, name: str) -> list[int]:
    """What the plugin counted, by position."""
    found = counted.by(f"outrider:{name}_tokens_total", "position")
    return [int(found.get(str(position), 0)) for position in range(max(CANDIDATES))]


def test_every_trimmed_draft_is_counted_where_it_was_trimmed(trimming: Engine, term: int) -> None:
    log = Log(trimming)
    counted = counted_at(trimming, term, 1, 3, "trimmed")
    verified, trimmed = counts(counted, "draft"), counts(counted, "trimmed_draft")
    # As a request ends, vLLM has scheduled one more step of it, and counts none of its drafts.
    beyond = [all_of - own for all_of, own in zip(log.tokens("verified"), verified, strict=True)]
    assert all(0 <= more <= STREAMS for more in beyond)
    assert min(sum(trimmed), sum(verified)) > 0
    # vLLM counts every scheduled draft as drafted, and so trimmed ones as rejected.
    assert not counted.disagreements()
    accepted = counts(counted, "accepted")
    assert all(got <= of for got, of in zip(accepted, verified, strict=True))
    assert sum(accepted) > 0


def test_answers_are_those_without_drafts(trimming: Engine, term: int) -> None:
    def answers(epoch: int, k: int) -> list[object]:
        trimming.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        found: list[Any] = [
            trimming.complete(max_tokens=SHORT, prompt=prompt)["choices"] for prompt in PROMPTS
        ]
        return [choice["text"] for (choice,) in found]

    assert answers(1, 3) == answers(2, 0)


def test_a_pushed_k_bounds_what_is_verified(trimming: Engine, term: int) -> None:
    log = Log(trimming)
    counted = counted_at(trimming, term, 1, 1, "bounded")
    drafts = [drafts for step in log.steps() for drafts in step["scheduled"]]
    assert counts(counted, "draft")[1:] == counts(counted, "trimmed_draft")[1:] == [0, 0]
    assert max(drafts) == 1
    assert not counted.disagreements()


def test_k_0_drafts_nothing_and_leaves_nothing_to_trim(trimming: Engine, term: int) -> None:
    log = Log(trimming)
    counted = counted_at(trimming, term, 1, 0, "none")
    assert log.steps() == []
    assert counts(counted, "draft") == counts(counted, "trimmed_draft") == [0, 0, 0]
    assert not counted.disagreements()


@INTERPRETED
def test_counts_stay_true_while_the_table_changes_all_the_time(trimming: Engine, term: int) -> None:
    before = scrape(trimming)
    answers, _ = across_changes(
        trimming, term, CANDIDATES, FEW[:2], enough=lambda counted: sum(counts(counted, "trimmed_draft")) > 0
    )
    counted = settled(trimming, before=before, tokens=TOKENS * len(answers))
    assert not counted.disagreements()


def test_the_state_says_that_trimmed_drafts_are_counted(trimming: Engine) -> None:
    state = trimming.state()
    assert state["verification"] == {"adaptive": True, "trimmedDraftsCounted": True, "reason": None}
    assert (state["liveTuning"], state["problems"]) == ({"possible": True, "reason": None}, [])


@INTERPRETED
def test_the_numbers_also_come_from_a_worker_in_a_process_of_its_own(
    plugin: Path, tmp_path: Path, term: int
) -> None:
    launch = replace(an_adaptive_launch(SYNCHRONOUS), variables=OWN_WORKER)
    with running_engine(plugin, tmp_path, launch) as engine:
        before, log = scrape(engine), Log(engine)
        engine.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
        tokens = run_streams(engine, streams=STREAMS, requests=1, max_tokens=SHORT)
        counted = settled(engine, before=before, tokens=tokens)
        verified, trimmed = counts(counted, "draft"), counts(counted, "trimmed_draft")
        assert verified == log.tokens("verified")
        assert [sum(pair) for pair in zip(verified, trimmed, strict=True)] == log.tokens("scheduled")
        assert sum(trimmed) > 0
        assert not counted.disagreements()
