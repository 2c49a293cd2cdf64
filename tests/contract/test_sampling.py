"""Sampled answers come from the target's own distribution, with drafts as without."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from outrider.verify.sampling import PositionTest, position_tests
from tests.contract.engine import Engine, completion_body
from tests.contract.engine_process import PYTHON
from tests.contract.factories import a_constant, a_push

pytestmark = pytest.mark.contract

PROMPT = "The"
"""Short, since each answer computes it anew, and the bytes of prompts are what takes a CPU's time."""
TOKENS = 3
SAMPLES = 1000
"""On each side. A shift of 0.15 of the answers from the likeliest token to the others is then seen in 93 % of
runs or more at either position, by the target's own distribution after this prompt."""
PER_REQUEST = 100
CHANCE = 1e-7
"""Failure rate of a right engine, at each of six positions. The test's tail is not lighter than the true one:
which of two samples has the more of a token is thrown like a coin, and sums of coins stray less far than the
bell curve says."""

Answers = list[list[str]]

EXPAND = """
import torch
from outrider_engine.vllm_adapter.cpu_sampling import expand

for kind in (torch.float32, torch.int32, torch.int64):
    output = torch.full((6,), 99, dtype=kind)
    expand(output, torch.tensor([0, 7, 3], dtype=kind), torch.tensor([2, 2, 5], dtype=torch.int32), 0, 1)
    print(output.tolist())
"""


def sampled(engine: Engine, *, term: int, epoch: int, k: int, **parameters: float) -> Answers:
    """The tokens of as many answers, drawn at temperature 1 under a constant table."""
    engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
    body = completion_body(TOKENS, PROMPT) | {
        **{"temperature": 1.0, "n": PER_REQUEST, "return_token_ids": True},
        **parameters,
    }
    answers: Answers = []
    with engine.client() as client:
        while len(answers) < SAMPLES:
            response = client.post("/v1/completions", json=body)
            response.raise_for_status()
            answers += [
                [str(token) for token in choice["token_ids"]] for choice in response.json()["choices"]
            ]
    return answers


def compared(plain: Answers, drafted: Answers) -> list[PositionTest]:
    """The first token needs no draft."""
    found = position_tests(plain, drafted, positions=TOKENS)[1:]
    return [test for test in found if isinstance(test, PositionTest)]


@pytest.mark.parametrize(
    "parameters", [{}, {"top_p": 0.5}, {"top_k": 3, "top_p": 0.99}], ids=["temperature", "top-p", "top-k"]
)
def test_drafts_do_not_change_the_distribution_of_sampled_tokens(
    engine: Engine, term: int, parameters: dict[str, float]
) -> None:
    counted = "vllm:spec_decode_num_drafts_total"
    plain = sampled(engine, term=term, epoch=1, k=0, **parameters)
    before = engine.counter(counted)
    drafted = sampled(engine, term=term, epoch=2, k=3, **parameters)
    assert engine.counter(counted) - before >= SAMPLES, "not every answer was drafted"
    found = compared(plain, drafted)
    print(*found, sep="\n")
    assert len(found) == TOKENS - 1, "all samples were alike, so nothing was compared"
    assert [test for test in found if test.p <= CHANCE] == []


def test_top_k_alone_does_not_end_the_engine(engine: Engine, term: int) -> None:
    """The step that reads the prompt has no drafts."""
    answers = sampled(engine, term=term, epoch=1, k=3, top_k=3)
    assert len({tokens[0] for tokens in answers}) == 3


def test_the_value_of_a_request_reaches_each_of_its_tokens_in_its_own_type(plugin: Path) -> None:
    """A request without drafts has no tokens, and what lies behind the last one is left alone."""
    run = subprocess.run(
        [PYTHON, "-c", EXPAND], env={"PYTHONPATH": str(plugin)}, capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n") == ["[1.0, 1.0, 3.0, 3.0, 3.0, 99.0]", *["[1, 1, 3, 3, 3, 99]"] * 2, ""]
