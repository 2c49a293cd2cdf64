"""Two engines at the ends of a KV connector: the decode engine is tuned live on a cache of the other.

`ExampleConnector` of vLLM keeps the cache in files, and moves the drafter's layer, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from outrider.runtimes.vllm.kv_transfer import Role
from tests.contract import quick_start
from tests.contract.answers import PROMPTS, Answer, answer, compare
from tests.contract.engine import EAGLE3, Engine, Launch, running_engine
from tests.contract.equality import assert_equal_up_to_noise
from tests.contract.gaps import push
from tests.contract.measuring import Samples, scrape, settled

pytestmark = [pytest.mark.contract, pytest.mark.nightly("it starts two engines")]

K, TOKENS = 3, 32
LONG = [(prompt * 40)[:300] for prompt in PROMPTS[:4]]
"""More than two blocks of the cache each, since whole blocks move."""
BY_SOURCE, MOVED = "vllm:prompt_tokens_by_source_total", "external_kv_transfer"
ACCEPTED = "outrider:accepted_tokens_total"


def launch_of(role: Role, store: Path) -> Launch:
    """Without vLLM's own prefix cache, so that the blocks come from the connector."""
    config = {
        "kv_connector": "ExampleConnector",
        "kv_role": role,
        "kv_connector_extra_config": {"shared_storage_path": str(store)},
    }
    flags = ("--kv-transfer-config", json.dumps(config), "--no-enable-prefix-caching")
    return Launch(EAGLE3, candidates=(0, 1, 2, K), plugins=(quick_start.NAME,), flags=flags)


@pytest.fixture(scope="module")
def sides(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """The prefill engine and the decode engine."""
    store, *folders = (tmp_path_factory.mktemp(name) for name in ("store", "prefill", "decode"))
    launches = (launch_of(role, store) for role in (Role.PRODUCER, Role.CONSUMER))
    prefill, decode = (
        running_engine(plugin, folder, launch) for folder, launch in zip(folders, launches, strict=True)
    )
    with prefill as one, decode as other:
        yield one, other


def answers_at(engine: Engine, k: int, *, term: int, epoch: int) -> tuple[Sequence[Answer], Samples]:
    """The answers one after the other under one K, and what they counted."""
    push(engine, term, epoch, k)
    before = scrape(engine)
    answers = [answer(engine, prompt, tokens=TOKENS) for prompt in LONG]
    return answers, settled(engine, before=before, tokens=TOKENS * len(LONG))


def test_a_decode_engine_is_tuned_on_a_cache_that_the_other_engine_filled(
    sides: tuple[Engine, Engine], term: int
) -> None:
    prefill, decode = sides
    for engine in sides:
        assert engine.first_state["liveTuning"] == {"possible": True, "reason": None}
    expected, computed = answers_at(prefill, K, term=term, epoch=1)
    assert computed.total(BY_SOURCE, source=MOVED) == 0
    for epoch, k in enumerate((K, 0, 1), start=1):
        answers, counted = answers_at(decode, k, term=term, epoch=epoch)
        assert counted.total(BY_SOURCE, source=MOVED) > counted.total(BY_SOURCE, source="local_compute")
        assert_equal_up_to_noise(compare(expected, answers), f"moved_{k}")
        assert counted.disagreements() == {}
        assert set(counted.by("outrider:steps_total", "k")) <= {str(k), "mixed"}
        if k == K:
            # The drafter's layer of the cache came along.
            assert counted.by(ACCEPTED, "position") == computed.by(ACCEPTED, "position")
