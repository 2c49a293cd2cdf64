"""Every table of the rules of thumb for speculative decoding, against what is computed here."""

from __future__ import annotations

import pytest

from outrider.performance.tables_file import read_tables
from outrider.sizing.forecast import forecast
from outrider.sizing.memory import Load, Verdict, memory
from outrider.sizing.sources import Evidence
from outrider.sizing.speed import (
    MeasuredSpeeds,
    best_k,
    dollars_per_million_tokens,
    paying_batches,
    rule_of_thumb,
    speedup,
)
from outrider.sizing.spread import Spread
from outrider.sizing.tasks import PRESETS, Task
from tests.unit.lab.factories import VISIBLE
from tests.unit.sizing.factories import a_drafter, a_gpu, a_known, a_question, some_speeds

_70B = "Llama-3.3-70B-Instruct-FP8"


@pytest.mark.parametrize(
    ("model", "drafter", "gpu", "gpus", "streams", "gigabytes"),
    [
        (_70B, "Llama-3.2-1B", "H100", 1, 1, 76),
        # The source gives no amount of cache: 8 streams of 4096 tokens give this row, 1 the rest.
        ("Llama-3.1-8B", "Llama-3.2-1B", "L40S", 1, 8, 26),
        (_70B, "eagle3", "H100", 1, 1, 77),
        ("Llama-3.1-405B-FP8", "Llama-3.2-3B", "H200", 4, 1, 415),
    ],
)
def test_the_memory_table_is_met_within_5_percent_and_fits(
    model: str, drafter: str, gpu: str, gpus: int, streams: int, gigabytes: float
) -> None:
    target = a_known(model)
    held = memory(
        target,
        a_drafter(target, drafter),
        a_gpu(gpu).memory_bytes,
        spread=Spread(tensor=gpus),
        share=0.94,
        candidates=(0, 1, 2, 3, 5),
        load=Load(streams, 4096),
    )
    assert held.total / 1e9 == pytest.approx(gigabytes, rel=0.05)
    assert held.verdict is Verdict.FITS


@pytest.mark.parametrize(
    ("price", "tokens_per_second", "dollars"),
    [
        (2.01, 1200, 0.46),  # H100 PCIe: no drafter, draft model, EAGLE-3
        (2.01, 2600, 0.21),
        (2.01, 3600, 0.15),
        (2.40, 1500, 0.44),  # H100 SXM5
        (2.40, 4400, 0.15),
        (2.04, 3800, 0.15),  # L40S
        (2.04, 10_000, 0.06),
    ],
)
def test_the_cost_table_is_met_to_a_cent(price: float, tokens_per_second: float, dollars: float) -> None:
    assert dollars_per_million_tokens(price, tokens_per_second) == pytest.approx(dollars, abs=0.006)


@pytest.mark.parametrize(
    ("model", "drafter", "gpu", "acceptance", "without", "drafting"),
    [
        (_70B, "Llama-3.2-1B", "H100-PCIe", None, 1200, 2600),
        # An acceptance of 0.85 is the middle of what the source calls excellent, as it says of EAGLE-3.
        (_70B, "eagle3", "H100-PCIe", 0.85, 1200, 3600),
        (_70B, "eagle3", "H100", 0.85, 1500, 4400),
        # The source names no model for the L40S; 8B in 16 bits is the one of its memory table.
        ("Llama-3.1-8B", "eagle3", "L40S", 0.85, 3800, 10_000),
    ],
)
def test_the_speedups_of_the_h100_and_l40s_tables_are_met_within_10_percent(
    model: str, drafter: str, gpu: str, acceptance: float | None, without: float, drafting: float
) -> None:
    texts = PRESETS[Task.CODE].acceptance if acceptance is None else (acceptance,)
    speeds = some_speeds(model, gpu, drafter=drafter, acceptance=texts, context=1000)
    assert speedup(speeds, 1, 5) == pytest.approx(drafting / without, rel=0.10)


def test_the_level_of_the_h100_table_needs_more_streams_than_it_says() -> None:
    """Four streams of a 70B model cannot be read from an H100's memory at 1,200 tokens per second."""
    speeds = some_speeds(_70B, "H100-PCIe", context=1000)
    assert speeds.without(4) < 1200 / 10
    assert speeds.without(100) == pytest.approx(1200, rel=0.10)


def test_the_gb10_table_pays_for_one_stream_and_not_for_eight() -> None:
    table = read_tables(VISIBLE)["gb10_qwen3_coder_30b"]
    speeds = MeasuredSpeeds(table)
    assert speedup(speeds, 1, 4) == pytest.approx(35 / 25)
    assert speedup(speeds, 8, 4) == pytest.approx(270 / 316)
    assert [best_k(speeds, batch, (0, 4)) for batch in (1, 8)] == [4, 0]
    assert paying_batches(speeds, (0, 4), 8) == (1, 4)  # between the two, on a line in log tokens per second


def test_the_formula_does_not_meet_the_gb10_table() -> None:
    """One stream is too fast and eight are far too slow: the guide of `outrider plan` says so."""
    speeds = some_speeds("Qwen3-Coder-30B-A3B-Instruct", "GB10", context=400)
    assert speeds.without(1) / 25 == pytest.approx(1.13, abs=0.05)
    assert 316 / speeds.without(8) == pytest.approx(5.2, abs=0.2)


def test_a_plan_from_the_gb10_table_starts_with_drafts_below_eight_only() -> None:
    table = read_tables(VISIBLE)["gb10_qwen3_coder_30b"]
    answer = forecast(a_question("Qwen3-Coder-30B-A3B-Instruct", "GB10", measured=table))
    assert str(answer.proposal.schedule) == "*:0"
    assert answer.paying == (1, 4)
    assert answer.evidence is Evidence.MEASURED


@pytest.mark.parametrize(("accepted", "gain"), [(0.0, 0.909), (1.0, 1.667), (2.0, 2.308), (4.0, 3.333)])
def test_the_rule_of_thumb_is_that_of_the_guides(accepted: float, gain: float) -> None:
    """Figures worked by hand from the guide's (1 + m) / ((1 + m) c + 1), with a drafter of c = 10 %."""
    assert rule_of_thumb(accepted, 0.1) == pytest.approx(gain, abs=0.001)
