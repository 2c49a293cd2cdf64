"""Speculation changes how fast tokens come, never which.

Greedy answers are compared with those of an engine without speculation. Batches of another shape take
other kernels, so logits differ in their last bits. Two tokens may change places only where the plain
engine's lie about as close together as that noise is large, which is measured on the tokens that agree.
"""

from __future__ import annotations

import pytest

from tests.contract.answers import Answer
from tests.contract.engine import CANDIDATES, Engine
from tests.contract.equality import check
from tests.contract.gaps import CAUGHT_UP
from tests.contract.measuring import Samples

pytestmark = pytest.mark.contract


def test_a_draft_model_changes_no_token(engine: Engine, term: int, plain: list[Answer]) -> None:
    """Whether it drafts, is left out, or catches up."""

    def caught_up(counted: Samples) -> bool:
        return counted.total(CAUGHT_UP) > 0

    check(engine, term, plain, CANDIDATES, "draft_model", enough=caught_up)


def test_ngram_changes_no_token(ngram_engine: Engine, term: int, plain: list[Answer]) -> None:
    check(ngram_engine, term, plain, (0, 2, 4), "ngram")


def test_the_model_is_surer_of_most_tokens_than_the_noise_is_wide(plain: list[Answer]) -> None:
    """So that a wrong token would be seen."""
    leads = sorted(token.lead for answer in plain for token in answer)
    assert leads[len(leads) // 10] > 0.05
