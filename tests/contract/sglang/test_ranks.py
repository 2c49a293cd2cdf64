"""Two tensor-parallel ranks of SGLang draft the same K in each round, or the engine would hang."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.engine import Engine
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import scrape
from tests.contract.sglang.counts import PROMPT, counted, ks, text_of
from tests.contract.sglang.engine import Launch, running_engine

pytestmark = [pytest.mark.contract, pytest.mark.nightly("starts")]

TWO_RANKS = Launch(
    flags=("--tp-size", "2"),
    # One core for each rank, and no library of a GPU for what they exchange.
    variables={"SGLANG_CPU_OMP_THREADS_BIND": "0|1", "SGLANG_NCCL_SO_PATH": "/none"},
)
TOKENS, LONG = 32, 300


@pytest.fixture(scope="module")
def ranks(sglang_plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(sglang_plugin, tmp_path_factory.mktemp("ranks"), TWO_RANKS) as engine:
        yield engine


def test_k_changes_on_both_ranks_and_the_text_stays(ranks: Engine, term: int) -> None:
    texts = set[str]()
    for epoch, k in enumerate((3, 0, 1, 3, 0), start=1):
        ranks.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        before = scrape(ranks)
        texts.add(text_of(ranks.complete(max_tokens=TOKENS, prompt=PROMPT)))
        assert ks(counted(ranks, before, TOKENS), batch="1") == {str(k)}
    assert len(texts) == 1


def test_a_lease_ends_on_both_ranks_inside_a_request(ranks: Engine, term: int) -> None:
    before = scrape(ranks)
    ranks.put(a_push(term=term, schedule=a_constant(5), lease_seconds=0.5)).raise_for_status()
    ranks.complete(max_tokens=LONG, prompt=PROMPT)
    steps = counted(ranks, before, LONG).by("outrider:steps_total", "k", batch="1")
    steps.pop("mixed", None)
    assert set(steps) == {"5", "2"}
    assert ranks.state()["source"] == "Fallback"


def test_the_fast_loop_is_refused_with_the_reason(ranks: Engine) -> None:
    loop = ranks.state()["fastLoop"]
    assert isinstance(loop, dict)
    assert not loop["possible"]
    assert "tensor-parallel rank" in loop["reason"]
