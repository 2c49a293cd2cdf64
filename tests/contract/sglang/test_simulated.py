"""SGLang with the rounds and the acceptance of a description: both are as they were asked for (simulated)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from outrider_protocol.cost_model import CostModel, launch_revision
from outrider_protocol.schedule import Schedule
from tests.contract.engine import MAX_NUM_SEQS, Engine
from tests.contract.factories import a_constant, a_push
from tests.contract.fast_loops import fast_loop
from tests.contract.measuring import Samples, scrape, wait_until
from tests.contract.sglang.engine import CANDIDATES, running_engine
from tests.contract.sglang.simulated import STOCK, THROUGHPUT_AWARE, ask, rounds, simulated_launch

pytestmark = pytest.mark.contract

FIXED, PER_DRAFT = 0.01, 0.002
"""Seconds of a round, and of each token that it drafts."""
SURVIVAL = {"all": [1.0] * 5, "none": [0.0] * 5, "half": [0.5, 0.5, 0.0, 0.0, 0.0]}
SETTINGS = {
    "engine": {
        "name": "even steps",
        "step_time": {"fixed": FIXED, "draft_fixed": PER_DRAFT},
        "survival": SURVIVAL,
        "kv_tokens": 100_000,
    }
}
TOKENS = 120


@pytest.fixture(scope="module")
def played(sglang_plugin: Path, twin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    launch = simulated_launch(sglang_plugin, twin, SETTINGS)
    with running_engine(sglang_plugin, tmp_path_factory.mktemp("played"), launch) as engine:
        yield engine


def served(engine: Engine, text: str, answers: int = 1) -> Samples:
    before = scrape(engine)
    for name in range(answers):
        ask(engine, text, name, tokens=TOKENS)
    latest = [scrape(engine) - before]

    def arrived() -> bool:
        latest.append(scrape(engine) - before)
        return latest[-1].total("outrider:emitted_tokens_total") >= answers * TOKENS

    wait_until(arrived, f"{answers * TOKENS} tokens were not counted")
    return latest[-1]


def accepted(counted: Samples, *, position: int) -> float:
    """Ratio of the drafts of a position."""
    drafted = counted.total("outrider:draft_tokens_total", position=str(position))
    return counted.total("outrider:accepted_tokens_total", position=str(position)) / drafted


def test_its_state_says_what_it_imitates(played: Engine) -> None:
    assert played.first_state["simulated"] == "even steps"


@pytest.mark.parametrize("k", CANDIDATES)
def test_a_round_takes_the_time_of_its_k(played: Engine, term: int, k: int) -> None:
    played.put(a_push(term=term, schedule=a_constant(k))).raise_for_status()
    counted = served(played, "half")
    steps = counted.total("outrider:steps_total", k=str(k))
    seconds = counted.total("outrider:step_seconds_total", k=str(k))
    assert steps > TOKENS / (k + 1) - 2
    assert seconds / steps == pytest.approx(FIXED + PER_DRAFT * k, rel=1e-6)


def test_each_text_has_its_acceptance(played: Engine, term: int) -> None:
    played.put(a_push(term=term, schedule=a_constant(3))).raise_for_status()
    for text, survival in SURVIVAL.items():
        counted = served(played, text, answers=4)
        for position, wanted in enumerate(survival[:3]):
            assert accepted(counted, position=position) == pytest.approx(wanted, abs=0.1)


def test_the_fast_loop_follows_the_text(played: Engine, term: int) -> None:
    """By a cost model of these rounds: all drafts pay in one text, and none in the other."""
    seconds = tuple(FIXED + PER_DRAFT * k for k in CANDIDATES)
    model = CostModel(
        revision=launch_revision("eagle3", MAX_NUM_SEQS, max(CANDIDATES)),
        candidates=CANDIDATES,
        batch_sizes=(1, MAX_NUM_SEQS),
        step_seconds=(seconds, seconds),
        errors=((0.02,) * len(CANDIDATES),) * 2,
        context_tokens=0.0,
        context_slopes=(0.0,) * len(CANDIDATES),
        limits=Schedule.constant(max(CANDIDATES)),
    )
    body = a_push(term=term, schedule=a_constant(3)) | {"costModel": model.to_wire()}
    played.put(body).raise_for_status()
    for text, best in (("all", max(CANDIDATES)), ("none", 0), ("all", max(CANDIDATES))):
        served(played, text, answers=2)
        assert fast_loop(played)["numSpeculativeTokens"] == best
    assert fast_loop(played)["active"]


@contextmanager
def stock(plugin: Path, twin: Path, folder: Path, policy: str | None) -> Iterator[Engine]:
    launch = simulated_launch(plugin, twin, SETTINGS, policy=policy, plugins=STOCK, candidates=(1, 3, 5))
    with running_engine(plugin, folder, launch) as engine:
        yield engine


@pytest.mark.nightly("starts")
@pytest.mark.parametrize("policy", [None, THROUGHPUT_AWARE], ids=["ema", "throughput_aware"])
def test_sglangs_own_policies_move_k_both_ways(
    sglang_plugin: Path, twin: Path, tmp_path: Path, policy: str | None
) -> None:
    def most_after(engine: Engine, texts: Sequence[str]) -> list[str]:
        """The K of most rounds in each text."""
        found = []
        for text in texts:
            before = rounds(engine)
            for name in range(4):
                ask(engine, text, name, tokens=TOKENS)
            now = rounds(engine)
            found.append(max(now, key=lambda k: now[k] - before.get(k, 0)))
        return found

    with stock(sglang_plugin, twin, tmp_path, policy) as engine:
        assert most_after(engine, ["all", "none", "all"]) == ["5", "1", "5"]
