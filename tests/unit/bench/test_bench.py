"""Arms, GuideLLM's words, and how sure a bench is."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.bench.arms import AS_IT_IS, NO_DRAFTS, Arm, arms_of, interleaved
from outrider.bench.guidellm import Load, Slice, UnreadableResult, arguments, read
from outrider.bench.prompts import BUILT_IN, lines
from outrider.bench.report import page_of
from outrider.bench.result import Unread, json_of, text_of
from outrider.bench.sweep import Cell, Sweep, proposed
from outrider.bench.sweep import json_of as sweep_as_json
from outrider.bench.sweep import text_of as sweep_as_text
from outrider.bench.texts import NotAShape, PromptSet, Shape, Task, shape_of
from outrider.bench.verdict import Interval, Verdict, against_best, mean, mean_amount, ratio, verdict
from outrider.performance.tables_file import parse_tables
from tests.unit.bench.kit import REPORT, SETTING, a_result

LOAD = Load("http://127.0.0.1:1", "m", 8, 20.0, 128)
RATES = st.lists(st.floats(1.0, 1e5), min_size=2, max_size=40)


def test_no_drafts_are_measured_once_whatever_was_asked_for() -> None:
    assert arms_of((3, 0, 3)) == (AS_IT_IS, NO_DRAFTS, Arm(3))


@given(st.integers(0, 1000), st.integers(1, 9))
def test_every_round_has_every_arm_once(seed: int, rounds: int) -> None:
    arms = arms_of((1, 3, 5))
    order = list(interleaved(arms, rounds=rounds, seed=seed))
    assert [number for number, _ in order] == [number for number in range(rounds) for _ in arms]
    assert Counter(arm for _, arm in order) == Counter(dict.fromkeys(arms, rounds))


def test_the_order_differs_between_rounds_and_comes_again_with_its_seed() -> None:
    arms = arms_of((1, 3, 5))
    order = list(interleaved(arms, rounds=9, seed=1))
    assert order == list(interleaved(arms, rounds=9, seed=1))
    firsts = [arm for number, arm in order][:: len(arms)]
    assert len(set(firsts)) > 1


def test_guidellm_is_asked_for_one_closed_load() -> None:
    words = arguments(LOAD, texts="p.jsonl", output="o.json")
    assert words[0] == "run"
    given_to = dict(zip(words[1::2], words[2::2], strict=False))
    assert given_to["--profile"] == "kind=concurrent,streams=8"
    assert given_to["--constraint"] == "kind=max_duration,seconds=20"
    backend = (
        "kind=openai_http,request_format=/v1/completions,target=http://127.0.0.1:1,model=m,max_tokens=128"
    )
    assert given_to["--backend"] == backend


def words_of(load: Load, texts: PromptSet | Shape | str = "p.jsonl") -> dict[str, str]:
    """GuideLLM's options by name."""
    words = arguments(load, texts=texts, output="o.json")
    return dict(zip(words[1::2], words[2::2], strict=False))


def test_guidellm_is_asked_for_a_rate_in_place_of_streams() -> None:
    assert words_of(replace(LOAD, rate=2.5))["--profile"] == "kind=poisson,rate=2.5"


def test_guidellm_is_asked_for_greedy_answers() -> None:
    assert words_of(replace(LOAD, temperature=0.0))["--backend"].endswith(",extras.body.temperature=0")


def test_guidellm_loads_prompt_sets_by_name_from_the_hub() -> None:
    words = words_of(LOAD, PromptSet.GSM8K)
    assert (
        words["--data"] == "kind=huggingface,source=openai/gsm8k,load_kwargs.split=test,load_kwargs.name=main"
    )
    mapper = "kind=generative_column_mapper,column_mappings.text_column=question"
    assert words["--data-column-mapper"] == mapper


@pytest.mark.parametrize("name", PromptSet)
def test_every_prompt_set_has_its_place_and_its_column(name: PromptSet) -> None:
    assert words_of(LOAD, name).keys() >= {"--data", "--data-column-mapper"}


def test_guidellm_makes_synthetic_requests_of_a_shape() -> None:
    words = words_of(LOAD, replace(shape_of("512/256"), tokenizer="Qwen/Qwen3-8B"))
    assert words["--data"] == "kind=synthetic_text,prompt_tokens=512,output_tokens=256"
    assert words["--tokenizer"] == "kind=huggingface_auto,model=Qwen/Qwen3-8B"


@pytest.mark.parametrize("text", ["512", "512/0", "/256", "512/256/1", "512/99999", "many/few"])
def test_another_shape_is_refused(text: str) -> None:
    with pytest.raises(NotAShape, match="write tokens of prompt and answer such as 512/256"):
        shape_of(text)


def test_tasks_share_no_category() -> None:
    assert sum(len(task.categories) for task in Task) == len(set().union(*(task.categories for task in Task)))


def test_tokens_of_answers_that_were_cut_off_count() -> None:
    found = read(REPORT)
    assert found.tokens_per_second == pytest.approx(218.0)
    assert found.first_token_ms == pytest.approx(111.55, abs=0.01)
    assert found.between_tokens_ms == pytest.approx(14.59, abs=0.01)
    assert (found.finished, found.failed) == (32, 0)


def test_a_slice_in_which_no_answer_was_finished_has_no_latencies() -> None:
    report = json.loads(REPORT)
    report["benchmarks"][0]["metrics"]["request_totals"]["successful"] = 0
    found = read(json.dumps(report))
    assert (found.first_token_ms, found.between_tokens_ms) == (None, None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"benchmarks": []}', REPORT.replace("218.", "NaN or 218.")]
)
def test_a_report_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(UnreadableResult):
        read(text)


@given(RATES)
def test_an_arm_is_worth_exactly_itself(rates: list[float]) -> None:
    assert ratio(rates, rates) == Interval(1.0, 1.0, 1.0)


@given(RATES, st.floats(0.1, 10))
def test_drift_that_both_arms_share_does_not_matter(rates: list[float], factor: float) -> None:
    found = ratio([factor * rate for rate in rates], rates)
    assert found.low == pytest.approx(factor)
    assert found.high == pytest.approx(factor)


def test_ninety_five_of_a_hundred_intervals_hold_the_truth() -> None:
    chooser = random.Random(5)
    held = 0
    for _ in range(2000):
        under = [math.exp(chooser.gauss(0, 0.05)) for _ in range(4)]
        over = [1.2 * math.exp(chooser.gauss(0, 0.05)) for _ in range(4)]
        found = ratio(over, under)
        held += found.low <= 1.2 <= found.high
    assert 0.935 < held / 2000 < 0.965


def test_two_rounds_say_little() -> None:
    found = mean([99.0, 101.0])
    assert (found.low, found.high) == pytest.approx((100 - 12.71, 100 + 12.71))


@given(RATES)
def test_no_rate_is_told_to_be_below_nothing(rates: list[float]) -> None:
    found = mean_amount(rates)
    assert 0 <= found.low <= found.value <= found.high


@pytest.mark.parametrize(
    ("gain", "told"),
    [
        (Interval(1.2, 1.1, 1.3), Verdict.PAYS),
        (Interval(0.8, 0.7, 0.9), Verdict.COSTS),
        (Interval(1.1, 0.9, 1.3), Verdict.UNSURE),
    ],
)
def test_a_verdict_needs_an_interval_without_one(gain: Interval, told: Verdict) -> None:
    assert verdict(gain) is told


def test_the_best_held_k_is_compared_with_what_the_tuner_does() -> None:
    result = a_result(as_it_is=[110.0, 110.0], k0=[100.0, 100.0], k3=[121.0, 121.0])
    found = against_best(result.rates)
    assert found is not None
    assert found[0] == Arm(3)
    assert found[1].value == pytest.approx(110 / 121)


def test_people_read_gain_interval_and_verdict_in_eighty_columns() -> None:
    result = a_result(as_it_is=[130.0, 131.0], k0=[100.0, 100.5], k3=[12345.0, 12500.0])
    told = list(text_of(result))
    assert max(map(len, told)) <= 80
    assert told[0] == "prod/qwen3, 8 streams, 2 rounds of 20 s, 95 % in brackets"
    assert any(line.startswith("Verdict: speculation pays: +30.2 % [") for line in told)
    assert any(line.startswith("Against K=3, the best single K: -98.9 % [") for line in told)


def test_with_a_rate_arms_are_compared_by_one_answer() -> None:
    """Arrivals decide the tokens per second of all answers."""
    found = a_result(as_it_is=[160.0, 160.0], k0=[160.0, 160.0])
    slower = [Slice(160.0, 20.0, pause, 9, 0) for pause in (7.5, 7.6)]
    at_a_rate = replace(found, setting=replace(SETTING, rate=2.0), slices={**found.slices, NO_DRAFTS: slower})
    told = list(text_of(at_a_rate))
    assert any(line.startswith("Verdict: speculation pays: +51.0 % [") for line in told)
    assert "over K=0: by the pause between two tokens, because arrivals decide tokens/s" in told
    assert max(map(len, told)) <= 80
    assert json_of(at_a_rate)["comparedBy"] == "tokens per second of an answer"
    assert "tokens per second of an answer over K=0" in page_of(at_a_rate, when="now")


def test_failed_requests_are_told() -> None:
    result = a_result(as_it_is=[1.0, 1.0], k0=[1.0, 1.0])
    broken = replace(result, slices={**result.slices, NO_DRAFTS: [Slice(1.0, None, None, 0, 7)] * 2})
    assert "14 requests failed" in text_of(broken)


def test_people_are_told_what_was_not_read_and_that_it_ended_early() -> None:
    found = a_result(as_it_is=[130.0, 131.0], k0=[100.0, 100.5])
    early = replace(
        found, setting=replace(SETTING, rounds=4), decisions=Unread("no answer."), ended="stopped"
    )
    told = list(text_of(early))
    assert told[1] == "ended after 2 of 4 rounds: stopped"
    assert told[-1] == "The decisions of the tuner could not be read: no answer."


def test_json_tells_decisions_that_were_not_read_from_none() -> None:
    found = a_result(as_it_is=[130.0, 131.0], k0=[100.0, 100.5])
    assert (json_of(found)["decisions"], json_of(found)["decisionsUnread"]) == ([], None)
    unread = json_of(replace(found, decisions=Unread("no answer.")))
    assert (unread["decisions"], unread["decisionsUnread"]) == (None, "no answer.")


def test_json_has_every_slice_and_no_figure_without_its_interval() -> None:
    told = json_of(a_result(as_it_is=[130.0, 131.0], k0=[100.0, 100.5]))
    assert told["verdict"] == "Pays"
    arms = told["arms"]
    assert isinstance(arms, list)
    first = arms[0]
    assert isinstance(first, dict)
    assert set(first["overK0"]) == {"value", "low", "high"}  # type: ignore[arg-type]
    assert len(first["slices"]) == 2  # type: ignore[arg-type]


def test_no_prompt_comes_twice_so_the_prefix_cache_answers_none() -> None:
    written = [json.loads(line)["prompt"] for line in islice(lines(BUILT_IN), 100)]
    assert len(set(written)) == 100


def test_two_slices_share_no_prompt() -> None:
    first, second = (set(lines(BUILT_IN, of_slice=number)) for number in (0, 1))
    assert not first & second


def a_sweep(*rows: tuple[float, ...], ks: tuple[int, ...] = (0, 1, 3)) -> Sweep:
    """A row per number of streams (1, 4, 16), with a noise of a tenth of a percent."""
    noise = {0: (1.0, 1.001, 0.999), 1: (1.001, 0.999, 1.0), 3: (0.999, 1.0, 1.001)}
    rates = {
        Cell(streams, k): [rate * factor for factor in noise[k]]
        for streams, row in zip((1, 4, 16), rows, strict=True)
        for k, rate in zip(ks, row, strict=True)
    }
    return Sweep("prod", "qwen3", 10.0, rates)


def test_the_proposal_has_the_best_k_up_to_each_number_of_streams() -> None:
    sweep = a_sweep((100, 150, 180), (400, 450, 440), (900, 800, 600))
    assert str(proposed(sweep)) == "1:3,4:1,*:0"


def test_of_two_k_that_are_alike_the_smaller_one_is_proposed() -> None:
    assert a_sweep((100, 150, 150.1), (1, 1, 1), (1, 1, 1)).best(1) == 1


def test_where_the_best_k_cannot_be_told_there_is_no_proposal() -> None:
    clear = a_sweep((100, 150, 180), (400, 450, 440), (900, 800, 600))
    noisy = replace(clear, rates={**clear.rates, Cell(4, 0): [100.0, 900.0, 300.0]})
    assert (noisy.best(4), noisy.unclear, proposed(noisy)) == (None, [4], None)
    assert sweep_as_json(noisy)["schedule"] is None
    told = list(sweep_as_text(noisy))
    assert told[-2:] == [
        "The best K with 4 streams is not clear, so no schedule is proposed:",
        "run more --rounds or longer --seconds",
    ]
    assert not any("static schedule" in line for line in told)


def test_a_smaller_k_may_lose_a_fifth_as_far_as_is_known_and_no_more() -> None:
    def between(low: float, high: float) -> Sweep:
        rates = {Cell(1, 0): [low, high, low, high], Cell(1, 3): [100.0] * 4}
        return Sweep("prod", "qwen3", 10.0, rates)

    assert between(95, 101).best(1) == 0
    assert between(80, 116).best(1) is None


def test_a_k_that_is_clearly_best_is_told_however_noisy_the_others_are() -> None:
    rates = {Cell(1, 0): [10.0, 30.0, 20.0], Cell(1, 3): [1000.0, 1010.0, 990.0]}
    assert Sweep("prod", "qwen3", 10.0, rates).best(1) == 3


def test_a_sweep_of_engines_that_compute_nothing_says_so_everywhere() -> None:
    sweep = replace(a_sweep((1, 2, 3), (1, 2, 3), (1, 2, 3)), simulated="h100_8b")
    assert "simulated: engines compute nothing and sleep the step times of h100_8b" in sweep_as_text(sweep)
    found = sweep_as_json(sweep)
    assert found["simulated"] == "h100_8b"
    (table,) = parse_tables(json.dumps(found), "sweep").values()
    assert table.source.endswith("simulated by h100_8b")


def test_a_sweep_of_many_k_fits_eighty_columns() -> None:
    rates = {Cell(streams, k): [12345.0, 12400.0] for streams in (1, 4096) for k in range(8)}
    told = list(sweep_as_text(Sweep("prod", "qwen3", 10.0, rates)))
    assert max(map(len, told)) <= 80
    assert [line.split() for line in told if line.startswith("streams")] == [
        ["streams", "K=0", "K=1", "K=2"],
        ["streams", "K=3", "K=4", "K=5"],
        ["streams", "K=6", "K=7"],
    ]


def test_a_sweep_is_a_table_that_simulate_reads() -> None:
    sweep = a_sweep((100, 150, 180), (400, 450, 440), (900, 800, 600))
    (table,) = parse_tables(json.dumps(sweep_as_json(sweep)), "sweep").values()
    assert (table.batch_sizes, table.candidates, table.ignored) == ((1, 4, 16), (0, 1, 3), ())
    assert table.rows[1] == pytest.approx((400, 450, 440))


@given(st.integers(0, 100), st.integers(1, 5))
def test_every_round_of_a_sweep_has_every_cell_once(seed: int, rounds: int) -> None:
    cells = [Cell(streams, k) for streams in (1, 4) for k in (0, 3)]
    order = list(interleaved(cells, rounds=rounds, seed=seed))
    assert Counter(cell for _, cell in order) == Counter(dict.fromkeys(cells, rounds))
