"""Drafts by LoRA adapter: counted for each by its name, for a bounded number of names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.control.verbs import MEASUREMENT, STATE
from outrider_engine.counting.adapters import MAX_ADAPTERS, OTHERS, AdapterDrafts, AdapterSums
from outrider_engine.http.exposition import render
from tests.unit.engine_plugin.fake_vllm import Engine, decoding, prompts, some_config

pytestmark = pytest.mark.usefixtures("vllm", "static_schedule")

BASE = "tiny"


def an_engine(*, with_adapters: bool = True) -> Engine:
    model = SimpleNamespace(is_multimodal_model=False, max_model_len=512, served_model_name=BASE)
    return Engine(some_config(model_config=model, lora_config=object() if with_adapters else None))


def counted(engine: Engine) -> dict[str, Any]:
    return {
        sums["adapter"]: (sums["drafts"], sums["draftTokens"], sums["acceptedTokens"])
        for sums in engine.ask(MEASUREMENT)["adapters"]
    }


def test_counts_drafts_of_each_adapter_and_of_the_base_model() -> None:
    engine = an_engine()
    engine.add("a", adapter="legal")
    engine.add("b")
    engine.step(prompts("a", "b"))
    engine.step(decoding("a", drafts=3, accepted=1))
    engine.step(decoding("a", "b", drafts=3, accepted=2))
    assert counted(engine) == {"legal": (2, 6, 3), BASE: (1, 3, 2)}
    text = render([engine.ask(MEASUREMENT)], model_name=BASE).decode()
    assert 'outrider:adapter_accepted_tokens_total{adapter="legal",engine="0",model_name="tiny"} 3.0' in text


def test_forgets_a_request_that_ended() -> None:
    engine = an_engine()
    engine.add("a", adapter="legal")
    engine.step(decoding("a", drafts=3, accepted=1))
    engine.step(decoding("b", drafts=3, gone=["a"]))
    engine.step(decoding("a", drafts=3))
    assert counted(engine) == {"legal": (1, 3, 1), BASE: (2, 6, 0)}


def test_an_adapter_without_drafts_is_listed_with_zeros() -> None:
    engine = an_engine()
    engine.add("a", adapter="legal")
    assert counted(engine) == {"legal": (0, 0, 0)}


def test_an_engine_without_adapters_counts_nothing() -> None:
    engine = an_engine(with_adapters=False)
    engine.add("a", adapter="legal")
    engine.step(decoding("a", drafts=3, accepted=1))
    assert counted(engine) == {}


def test_further_adapters_share_one_name() -> None:
    drafts = AdapterDrafts(BASE)
    drafts.counted("of the base", 1, 1)
    for number in range(MAX_ADAPTERS + 5):
        drafts.admit(str(number), f"adapter-{number}")
        drafts.counted(str(number), 2, 1)
    sums = {each["adapter"]: each for each in drafts.sums()}
    assert len(sums) == MAX_ADAPTERS + 2
    assert sums[OTHERS] == AdapterSums(adapter=OTHERS, drafts=5, draftTokens=10, acceptedTokens=5)


def test_cuts_the_name_of_an_adapter() -> None:
    drafts = AdapterDrafts(BASE)
    drafts.admit("a", "n" * 100_000)
    assert [len(each["adapter"]) for each in drafts.sums()] == [253]


def test_a_release_with_other_names_ends_the_counting_and_no_request() -> None:
    engine = an_engine()
    request = SimpleNamespace(request_id="a", sampling_params=SimpleNamespace(extra_args=None))
    engine.core.scheduler.add_request(request)
    engine.step(decoding("a", drafts=3, accepted=1))
    assert counted(engine) == {}
    assert "LoRA adapters" in "".join(engine.ask(STATE)["problems"])
