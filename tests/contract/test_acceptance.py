"""Acceptance by chance of a known size is reported as it is, position by position.

vLLM's synthetic rejection sampling accepts position i of a draft, given that those before it were
accepted, with a probability that the test sets. So the counts are binomial, and exact bounds hold.
vLLM has that sampling for GPUs only, so the kernel alone is replaced by one of the same steps for the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import quick_start, synthetic_sampler
from tests.contract.engine import DRAFT_MODEL, Engine, Launch, running_engine
from tests.contract.factories import a_constant, a_push
from tests.contract.load import TOKENS, WHOLE, busy
from tests.contract.measuring import Samples, scrape, settled, wait_until

pytestmark = pytest.mark.contract

RATES = (0.8, 0.6, 0.3)
"""Share of drafts of which at least i + 1 tokens are accepted."""
LEAST_DRAFTS = 1500
ERROR = 1e-7
"""Chance that a right engine fails the test, over all bounds."""

VLLM = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
OURS = "outrider:accepted_tokens_total"
OUR_DRAFTS = "outrider:draft_tokens_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"


@pytest.fixture(scope="module")
def engine(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that accepts by chance."""
    synthetic = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": RATES}
    speculation = {**DRAFT_MODEL, **synthetic}
    plugins = (quick_start.NAME, synthetic_sampler.NAME)
    launch = Launch(speculation=speculation, candidates=(0, 2, len(RATES)), plugins=plugins)
    with running_engine(plugin, tmp_path_factory.mktemp("synthetic"), launch) as engine:
        yield engine


def tail(successes: int, trials: int, chance: float) -> float:
    """The smaller of P(X <= successes) and P(X >= successes) for a binomial X, exactly."""

    def mass(k: int) -> float:
        return math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(k + 1)
            - math.lgamma(trials - k + 1)
            + k * math.log(chance)
            + (trials - k) * math.log1p(-chance)
        )

    below = math.fsum(mass(k) for k in range(successes + 1))
    above = math.fsum(mass(k) for k in range(successes, trials + 1))
    return min(below, above)


def test_the_bounds_tell_a_right_count_from_a_wrong_one() -> None:
    assert tail(800, 1000, 0.8) > 0.4
    assert tail(900, 1000, 0.8) < ERROR


def test_acceptance_per_position_is_that_of_the_sampler(engine: Engine) -> None:
    engine.put(a_push(term=1, schedule=a_constant(len(RATES)))).raise_for_status()
    before = scrape(engine)
    with busy(engine, streams=8) as ends:
        wait_until(lambda: drafts(scrape(engine) - before) >= LEAST_DRAFTS, "too few drafts", seconds=400)
    assert set(ends) == {WHOLE}
    counted = settled(engine, before=before, tokens=TOKENS * len(ends))
    trials, accepted = drafts(counted), by_position(counted, VLLM)
    print(f"{trials} drafts, accepted by position: {accepted}")
    assert counted.total(DRAFT_TOKENS) == len(RATES) * trials, "a draft was cut"
    chances = [tail(count, trials, rate) for count, rate in zip(accepted, RATES, strict=True)]
    assert min(chances) > ERROR / (2 * len(RATES)), f"{accepted} of {trials}: {chances}"
    assert by_position(counted, OURS) == accepted
    assert by_position(counted, OUR_DRAFTS) == [trials] * len(RATES)


def drafts(samples: Samples) -> int:
    return int(samples.total("vllm:spec_decode_num_drafts_total"))


def by_position(samples: Samples, name: str) -> list[int]:
    """A counter per position, summed over its other labels."""
    counts = samples.by(name, "position")
    return [int(counts.get(str(position), 0)) for position in range(len(RATES))]
