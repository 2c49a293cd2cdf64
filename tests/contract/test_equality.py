"""Speculation changes how fast tokens come, never which.

Greedy answers are compared with those of an engine without speculation. Batches of another shape take
other kernels, so logits differ in their last bits. Two tokens may change places only where the plain
engine's lie about as close together as that noise is large, which is measured on the tokens that agree.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest

from tests.contract.answers import (
    PROMPTS,
    TOKENS,
    Answer,
    Comparison,
    answers_alone,
    answers_together,
    compare,
)
from tests.contract.engine import CANDIDATES, Engine
from tests.contract.factories import a_constant, a_push

pytestmark = pytest.mark.contract

REPORT = Path("out/contract/equality.json")
SLACK = 2.0
"""The largest noise of some thousand tokens is not the largest that there is."""
ALONE = 3
"""Prompts that are also asked alone under each K; that is what takes the time."""


def with_each_k(engine: Engine, term: int, candidates: Sequence[int]) -> Iterator[list[Answer]]:
    """The first few alone and all together, under one constant table after the other."""
    for epoch, k in enumerate(candidates, start=1):
        engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        yield answers_alone(engine, PROMPTS[:ALONE])
        yield answers_together(engine)


def across_changes(engine: Engine, term: int, candidates: Sequence[int]) -> tuple[list[Answer], int]:
    """Together, while the table changes all the time; and the number of changes."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(answers_together, engine)
        for changes, k in enumerate(cycle(candidates), start=1):
            push = a_push(term=term, epoch=100 + changes, schedule=a_constant(k))
            engine.put(push).raise_for_status()
            if running.done():
                return running.result(), changes
    raise AssertionError("unreachable")


def assert_equal_up_to_noise(compared: Comparison, name: str, **figures: object) -> None:
    noise = max(compared.noise)
    leads = [token.lead for token, _ in compared.turns]
    figures |= {
        "tokens_compared": len(compared.noise),
        "noise_max": round(noise, 6),
        "noise_median": round(statistics.median(compared.noise), 6),
        "turns": len(leads),
        "largest_lead_at_a_turn": round(max(leads, default=0.0), 6),
    }
    write_report(name, figures)
    for token, instead in compared.turns:
        behind = token.behind.get(instead.text, math.inf)
        assert behind <= SLACK * noise, f"{instead} came instead of {token}, and the noise is {noise}"


def write_report(name: str, figures: dict[str, object]) -> None:
    kept = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(kept | {name: figures}, indent=1) + "\n")
    print(name, figures)


def check(engine: Engine, term: int, plain: list[Answer], candidates: Sequence[int], name: str) -> None:
    compared = Comparison((), ())
    for answers in with_each_k(engine, term, candidates):
        compared += compare(plain[: len(answers)], answers)
    changed, changes = across_changes(engine, term, candidates)
    compared += compare(plain, changed)
    assert changes > len(candidates)
    assert_equal_up_to_noise(compared, name, changes=changes)


def drafted(engine: Engine, run: Callable[[], None]) -> float:
    before = engine.counter("vllm:spec_decode_num_accepted_tokens_total")
    run()
    return engine.counter("vllm:spec_decode_num_accepted_tokens_total") - before


def test_a_draft_model_changes_no_token(engine: Engine, term: int, plain: list[Answer]) -> None:
    """Whether it drafts, is left out, or catches up."""
    caught_up = engine.counter("outrider:drafter_tokens_caught_up_total")
    accepted = drafted(engine, lambda: check(engine, term, plain, CANDIDATES, "draft_model"))
    assert accepted > TOKENS, "nothing was speculated, so nothing was compared"
    assert engine.counter("outrider:drafter_tokens_caught_up_total") > caught_up, "there was no gap"


def test_ngram_changes_no_token(ngram_engine: Engine, term: int, plain: list[Answer]) -> None:
    accepted = drafted(ngram_engine, lambda: check(ngram_engine, term, plain, (0, 2, 4), "ngram"))
    assert accepted > TOKENS, "nothing was speculated, so nothing was compared"


def test_the_model_is_surer_of_most_tokens_than_the_noise_is_wide(plain: list[Answer]) -> None:
    """So that a wrong token would be seen."""
    leads = sorted(token.lead for answer in plain for token in answer)
    assert leads[len(leads) // 10] > 0.05
