"""Expected speed of a model that was never run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.performance.step_time import read_formula
from outrider.performance.tables_file import read_tables
from outrider.sizing.architecture import Precision
from outrider.sizing.drafters import block_drafter, draft_model, eagle_head, prediction_layer, without_weights
from outrider.sizing.gpus import Gpu
from outrider.sizing.models import KNOWN_MODELS
from outrider.sizing.speed import (
    FormulaSpeeds,
    MeasuredSpeeds,
    dollars_per_million_tokens,
    even_acceptance,
    expected_tokens,
    paying_batches,
    safest_k,
    speedup,
)
from outrider.sizing.spread import Spread
from outrider.sizing.tasks import SURVIVAL
from outrider_protocol.methods import Method
from tests.unit.lab.factories import VISIBLE, a_table
from tests.unit.sizing.factories import a_gpu, a_known, some_speeds

RATES = st.floats(0.0, 0.999)
LENGTHS = st.integers(0, 32)


@given(rate=RATES, k=LENGTHS)
def test_tokens_per_step_are_the_guides_formula_for_one_rate(rate: float, k: int) -> None:
    assert expected_tokens((rate,), k) == pytest.approx((1 - rate ** (k + 1)) / (1 - rate))


@given(rates=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8), k=LENGTHS)
def test_a_step_yields_one_token_to_k_plus_one(rates: list[float], k: int) -> None:
    assert 1.0 <= expected_tokens(tuple(rates), k) <= k + 1 + 1e-9


@given(rate=st.floats(0.01, 0.99), k=st.integers(1, 16))
def test_the_acceptance_that_yields_so_many_tokens_is_found_again(rate: float, k: int) -> None:
    found = even_acceptance(expected_tokens((rate,), k), k)
    assert found == pytest.approx(rate, abs=1e-6)


def test_no_acceptance_yields_more_than_k_plus_one_tokens() -> None:
    assert even_acceptance(3.01, 2) is None


@pytest.mark.parametrize("k", [1, 3, 7])
def test_at_the_break_even_acceptance_drafting_is_as_fast_as_no_drafter(k: int) -> None:
    speeds = some_speeds()
    rate = even_acceptance(speeds.seconds(4, k) / speeds.seconds_without(4), k)
    assert rate is not None
    assert speedup(some_speeds(acceptance=(rate,)), 4, k) == pytest.approx(1.0)


@given(price=st.floats(0.01, 100), slow=st.floats(1, 1e6), gain=st.floats(1.001, 20))
def test_a_speedup_makes_tokens_cheaper(price: float, slow: float, gain: float) -> None:
    assert dollars_per_million_tokens(price, slow * gain) < dollars_per_million_tokens(price, slow)


@pytest.mark.parametrize("batch", [1, 16, 128])
@pytest.mark.parametrize("k", [0, 1, 5])
def test_the_published_fit_of_an_8b_model_on_an_h100_comes_out(batch: int, k: int) -> None:
    (entry,) = json.loads(VISIBLE.read_text())["formulas"]
    published, _ = read_formula(entry)
    speeds = some_speeds("Llama-3.1-8B", "H100", context=1000)
    ours = speeds.seconds_without(batch) if k == 0 else speeds.seconds(batch, k)
    assert ours == pytest.approx(published.seconds(batch, k, batch * 1000), rel=0.02)


def test_the_acceptance_of_tasks_is_the_published_one() -> None:
    (entry,) = json.loads(VISIBLE.read_text())["formulas"]
    assert {name: list(row) for name, row in SURVIVAL.items()} == {
        name: row[1:] for name, row in entry["survival"].items()
    }


def test_a_published_a40_without_drafter_is_met_within_15_percent() -> None:
    """Another GPU and another model than those that the formula was made with."""
    table = read_tables(VISIBLE)["a40_7b"]
    speeds = some_speeds("Qwen2.5-7B", "A40", context=400)
    for batch in table.batch_sizes:
        assert speeds.without(batch) == pytest.approx(table.goodput(batch, 0), rel=0.15)


def test_k_0_beside_a_drafter_is_slower_than_no_drafter() -> None:
    assert speedup(some_speeds(), 8, 0) == pytest.approx(1 / 1.10)


def test_more_tokens_read_more_experts_but_never_more_than_there_are() -> None:
    target = some_speeds("Qwen3-30B-A3B").target
    one, few, many = (target.bytes_read(tokens) for tokens in (1, 8, 10_000))
    assert one < few < many <= target.weight_bytes


@given(small=st.floats(0.1, 0.9), more=st.floats(0.01, 0.09))
def test_drafting_pays_for_no_fewer_streams_when_more_is_accepted(small: float, more: float) -> None:
    before = paying_batches(some_speeds(acceptance=(small,)), (0, 1, 3), 64)
    after = paying_batches(some_speeds(acceptance=(small + more,)), (0, 1, 3), 64)
    assert before is None or (after is not None and before[1] <= after[1])


STRIX_HALO = Gpu("Strix Halo", 128e9, 0.256e12, 59e12, None, "AMD's data sheet")


class Published(NamedTuple):
    """A speedup of one stream over no drafter, of a model with experts."""

    model: str
    gpu: Gpu
    tensor: int
    method: Method
    k: int
    tokens_per_step: float
    gain: float
    where: str


_STRIX = "kyuz0/amd-strix-halo-vllm-toolboxes#53"
PUBLISHED = [
    Published("Qwen3.6-35B-A3B-AWQ", STRIX_HALO, 1, Method.MTP, 1, 1.9, 1.15, _STRIX),
    Published("Qwen3.6-35B-A3B-AWQ", STRIX_HALO, 1, Method.MTP, 2, 2.4, 1.26, _STRIX),
    Published("Qwen3.6-35B-A3B-AWQ", STRIX_HALO, 1, Method.MTP, 3, 2.8, 1.22, _STRIX),
    Published("DeepSeek-R1", a_gpu("H200"), 8, Method.MTP, 1, 1.81, 1.63, "vllm-project/vllm#12755"),
    Published("GLM-5-NVFP4", a_gpu("RTX-PRO-6000"), 8, Method.MTP, 3, 2.76, 1.84, "rtx6kpro, models/glm5.md"),
    Published("gpt-oss-120b", a_gpu("H100"), 1, Method.EAGLE3, 3, 2.41, 1.34, "arXiv 2605.09992"),
    Published("Qwen3-Coder-30B-A3B", a_gpu("GB10"), 1, Method.EAGLE3, 4, 2.7, 1.40, "GB10 guide"),
]


@pytest.mark.parametrize("point", PUBLISHED, ids=lambda point: f"{point.model}, K={point.k}")
def test_what_drafts_gained_one_stream_of_experts_is_met_in_sign_and_within_a_quarter(
    point: Published,
) -> None:
    target = a_known(point.model)
    mtp = point.method is Method.MTP
    drafter = prediction_layer(target) if mtp else eagle_head(point.method, target)
    rate = even_acceptance(point.tokens_per_step, point.k)
    assert rate is not None
    speeds = FormulaSpeeds(target, drafter, point.gpu, Spread(point.tensor), 500, (rate,))
    found = speedup(speeds, 1, point.k)
    assert found > 1.0
    assert found == pytest.approx(point.gain, rel=0.25)


def test_a_static_table_for_experts_drafts_for_few_streams() -> None:
    for model in ("GLM-4.7-FP8", "DeepSeek-R1"):
        target = a_known(model)
        speeds = FormulaSpeeds(target, prediction_layer(target), a_gpu("H200"), Spread(8), 2048, (0.8,))
        assert safest_k(speeds, (1, 2, 4, 8), (0, 1, 2, 3)) > 0


def test_tokens_of_a_text_share_experts() -> None:
    """Four of a text choose 2.5 times the experts of one, where four texts choose more."""
    target = a_known("GLM-5")
    one = target.expert_bytes_read(1, 1)
    assert target.expert_bytes_read(1, 4) / one == pytest.approx(2.5, rel=0.05)
    assert target.expert_bytes_read(1, 4) < target.expert_bytes_read(4, 1)


@given(streams=st.integers(1, 64), k=st.integers(0, 5))
def test_ranks_of_data_parallelism_serve_more_at_once(streams: int, k: int) -> None:
    target = a_known("GLM-4.7-FP8")
    one, two = (
        FormulaSpeeds(target, prediction_layer(target), a_gpu("H200"), Spread(4, 1, data), 2048, (0.8,))
        for data in (1, 2)
    )
    assert two.goodput(2 * streams, k) > one.goodput(streams, k)


def test_a_pipeline_makes_one_stream_no_faster() -> None:
    target = a_known("Llama-3.3-70B")
    none = without_weights(Method.NONE)
    one, two = (FormulaSpeeds(target, none, a_gpu(), Spread(4, p), 2048, (0.8,)) for p in (1, 2))
    assert two.without(1) == one.without(1)
    assert two.without(8) > one.without(8)


def test_the_safest_k_does_not_give_away_one_batch_for_another() -> None:
    speeds = MeasuredSpeeds(a_table(rows=((50, 200), (300, 250), (600, 500))))
    assert safest_k(speeds, (1,), (0, 1)) == 1
    assert safest_k(speeds, (1, 8), (0, 1)) == 0


def test_drafting_on_the_published_a40_is_up_to_twice_too_fast() -> None:
    """The guide says so; a formula that does better has to change it."""
    table = read_tables(VISIBLE)["a40_7b"]
    target = a_known("Qwen2.5-7B")
    clone = draft_model(replace(target, precision=Precision.INT4), "its own weights in 4 bits")
    speeds = FormulaSpeeds(target, clone, a_gpu("A40"), Spread(), 400, (0.88,))
    ratios = [speeds.goodput(b, k) / table.goodput(b, k) for b in table.batch_sizes for k in (1, 2, 3)]
    assert min(ratios) > 1.0
    assert 1.8 < max(ratios) < 2.05


def test_a_block_costs_one_pass_whatever_k_is() -> None:
    target = next(m.architecture for m in KNOWN_MODELS if m.architecture.experts == 1)
    head = block_drafter(Method.DFLASH, target, "a head as large as its target")
    block = FormulaSpeeds(target, head, a_gpu(), Spread(), 500, (0.8,), block=15)
    verified = FormulaSpeeds(target, without_weights(Method.NGRAM), a_gpu(), Spread(), 500, (0.8,))
    once, *more = (block.seconds(8, k) - verified.seconds(8, k) for k in (1, 4, 15))
    assert once > 0
    assert more == pytest.approx([once, once])
    assert block.seconds(8, 0) == pytest.approx(verified.seconds(8, 0))


def test_a_longer_block_costs_more_for_the_same_k() -> None:
    target = next(m.architecture for m in KNOWN_MODELS if m.architecture.experts == 1)
    head = block_drafter(Method.DFLASH, target, "a head as large as its target")
    short, long = (FormulaSpeeds(target, head, a_gpu(), Spread(), 500, (0.8,), block=n) for n in (7, 15))
    assert long.seconds(8, 4) > short.seconds(8, 4)
