"""A first K and a first table, and what the forecast says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outrider.sizing.drafters import without_weights
from outrider.sizing.forecast import forecast
from outrider.sizing.memory import Load, Verdict
from outrider.sizing.proposal import ceiling_of
from outrider.sizing.spread import Spread
from outrider.sizing.tasks import PRESETS, Task
from outrider_protocol.methods import Method
from tests.unit.lab.factories import a_table
from tests.unit.sizing.factories import a_question


@pytest.mark.parametrize(
    ("task", "parameters", "acceptance", "ceiling"),
    [
        (Task.CHAT, 70e9, None, 5),
        (Task.CODE, 70e9, None, 7),
        (Task.SUMMARY, 70e9, None, 3),
        (Task.RAG, 70e9, None, 5),
        (Task.AGENTS, 70e9, None, 5),
        (Task.CHAT, 8e9, None, 4),
        (Task.CODE, 8e9, None, 7),
        (Task.SUMMARY, 70e9, 0.85, 7),
        (Task.CODE, 70e9, 0.4, 3),
        (Task.CHAT, 70e9, 0.65, 5),
    ],
)
def test_the_largest_k_is_that_of_the_guides(
    task: Task, parameters: float, acceptance: float | None, ceiling: int
) -> None:
    assert ceiling_of(task, parameters, acceptance)[0] == ceiling


@pytest.mark.parametrize("task", Task)
@pytest.mark.parametrize("gpu", ["H100", "L40S"])
def test_a_table_falls_with_the_batch_and_is_made_of_candidates(task: Task, gpu: str) -> None:
    made = forecast(a_question(gpu=gpu, task=task)).proposal
    values = [made.schedule.k_at(batch) for batch in (1, 8, 9, 32, 33, 1000)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0
    assert set(values) <= set(made.candidates)


@pytest.mark.parametrize("task", Task)
def test_every_number_of_a_proposal_says_where_it_comes_from(task: Task) -> None:
    answer = forecast(a_question(task=task))
    told = " ".join(str(source) for source in answer.proposal.sources)
    assert "largest K" in told
    assert all(edge in told for edge in ("up to 8", "up to 32", "above 32"))
    assert PRESETS[task].acceptance_source in answer.sources


def test_a_table_drafts_no_longer_than_is_fastest() -> None:
    hardly = forecast(a_question(acceptance=0.05)).proposal
    assert str(hardly.schedule) == "*:0"


def test_nothing_is_expected_of_what_does_not_fit() -> None:
    answer = forecast(a_question("Llama-3.3-70B", "L40S"))
    assert answer.memory.verdict is Verdict.TOO_LARGE
    assert answer.rows == ()


def test_no_more_streams_are_told_of_than_have_room() -> None:
    answer = forecast(a_question("Llama-3.3-70B-FP8", "H100", load=Load(8, 4096)))
    assert answer.memory.verdict is Verdict.CROWDED
    assert max(row.streams for row in answer.rows) == answer.memory.streams_with_room


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"load": Load(64, 1024)}, "64 streams"),
        ({"answer_tokens": 20}, "answers of 20 tokens"),
        ({"acceptance": 0.3}, "0.4 accepted tokens"),
    ],
)
def test_what_the_guides_advise_against_is_told(changes: dict[str, Any], words: str) -> None:
    assert any(words in warning for warning in forecast(a_question(**changes)).warnings)


def test_tight_memory_is_told() -> None:
    answer = forecast(a_question("Llama-3.3-70B-FP8", "H100", load=Load(1, 4096)))
    assert any("tight" in warning for warning in answer.warnings)


def test_a_price_makes_a_cost_with_and_without() -> None:
    row = forecast(a_question(price_per_hour=2.4, spread=Spread(2))).rows[0]
    assert row.dollars_without == pytest.approx(2 * 2.4 / 3600 / row.without * 1e6)
    assert row.dollars_with == pytest.approx(2 * 2.4 / 3600 / row.with_table * 1e6)


def test_a_row_that_only_follows_the_one_above_does_not_claim_to_be_best() -> None:
    table = a_table(
        rows=((50, 60, 40, 40), (300, 360, 200, 200), (320, 330, 340, 390), (600, 650, 700, 800)),
        batch_sizes=(1, 8, 9, 32),
        candidates=(0, 1, 2, 3),
    )
    answer = forecast(a_question(measured=table))
    assert str(answer.proposal.schedule) == "32:1,*:0"
    told = {source.what: source.where for source in answer.proposal.sources}
    assert told["K=1 up to 32"] == "no more than for smaller batches; 3 would be best up to 32"


def test_a_measured_table_is_not_read_beyond_its_end() -> None:
    answer = forecast(a_question(measured=a_table(), load=Load(64, 1024)))
    assert max(row.streams for row in answer.rows) == answer.largest_batch == 32
    assert "outside 1 to 32 streams extrapolated" in " ".join(str(source) for source in answer.sources)


def test_without_a_drafter_there_is_no_k_and_nothing_to_compare() -> None:
    question = replace(a_question(), drafter=without_weights(Method.NONE))
    answer = forecast(question)
    assert (answer.proposal.candidates, answer.tokens, answer.paying) == ((0,), (), None)
    assert all(row.k == 0 and row.speedup == 1.0 for row in answer.rows)
