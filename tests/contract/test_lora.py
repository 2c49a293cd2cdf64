"""LoRA adapters beside drafts: an engine serves when it has loaded each; drafts change no answer.

On both of vLLM's runners. V2 runs by Triton's interpreter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.models.pad import WEIGHTS
from outrider.runtimes.vllm import lora
from outrider_protocol.releases import Runner
from tests.contract import quick_start, v2
from tests.contract.engine import NGRAM, SERVED_NAME, Engine, Launch, completion_body, running_engine
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import scrape, settled
from tests.unit.plan.launches import a_launch

pytestmark = pytest.mark.contract

K, RANK, NAME, BASE = 4, 8, "legal", SERVED_NAME
TOKENS = 32
DRAFTED = "outrider:adapter_draft_tokens_total"
COUNTERS = {
    "outrider:adapter_drafts_total": "vllm:spec_decode_num_drafts_total",
    DRAFTED: "vllm:spec_decode_num_draft_tokens_total",
    "outrider:adapter_accepted_tokens_total": "vllm:spec_decode_num_accepted_tokens_total",
}
"""Sums of the plugin by adapter, and those of vLLM that they must add up to."""
PROMPT = "def main(argv):\n    return main(argv)\n\ndef main(argv):\n"


def write_adapter(folder: Path) -> Path:
    """An adapter of the tiny target that changes its answers: random weights, in PEFT's form."""
    shape = json.loads((WEIGHTS / "target" / "config.json").read_text())
    hidden, size = shape["hidden_size"], shape["num_attention_heads"] * shape["head_dim"]
    chooser = np.random.default_rng(0)
    tensors = {}
    for layer in range(shape["num_hidden_layers"]):
        start = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{start}.lora_A.weight"] = chooser.normal(size=(RANK, hidden)).astype(np.float32)
        tensors[f"{start}.lora_B.weight"] = chooser.normal(size=(size, RANK)).astype(np.float32)
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(_safetensors(tensors))
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": RANK, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config | {"target_modules": ["q_proj"]}))
    return folder


def _safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    """The format of a file: the length of the header, the header, the data."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        ends = [len(data), len(data) + tensor.nbytes]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": ends}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def launch_with(adapter: Path, runner: Runner = Runner.V1) -> Launch:
    """With the flags that Outrider writes."""
    spec = a_launch("ngram", engine={"loraAdapters": [{"name": NAME, "uri": f"file://{adapter}"}]}).spec
    modules = lora.flags(spec)[lora.MODULES]
    assert isinstance(modules, list)
    flags = ("--enable-lora", "--lora-modules", *map(str, modules))
    if runner is Runner.V2:
        return replace(v2.a_launch(v2.ASYNCHRONOUS), candidates=(0, K), flags=flags)
    return Launch(speculation=NGRAM, candidates=(0, K), plugins=(quick_start.NAME,), flags=flags)


RUNNERS = [
    Runner.V1,
    pytest.param(Runner.V2, marks=pytest.mark.nightly("the interpreter takes 50 ms per step")),
]


@pytest.fixture(scope="module", params=RUNNERS)
def adapted(
    request: pytest.FixtureRequest, plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """An engine with one adapter, which drafts by n-gram on V1 and by EAGLE-3 on V2."""
    folder = tmp_path_factory.mktemp("lora")
    launch = launch_with(write_adapter(folder / NAME), request.param)
    with running_engine(plugin, folder, launch) as engine:
        assert engine.first_state["runner"] == request.param
        yield engine


def answer(engine: Engine, model: str, k: int, *, term: int, epoch: int) -> str:
    assert engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).status_code == 200
    body = completion_body(TOKENS, PROMPT) | {"model": model}
    with engine.client() as client:
        response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["text"])


def test_an_engine_that_serves_lists_each_adapter(adapted: Engine) -> None:
    with adapted.client() as client:
        served = [model["id"] for model in client.get("/v1/models").json()["data"]]
    assert served == [BASE, NAME]


def test_an_adapter_changes_the_answer_and_drafts_do_not(adapted: Engine, term: int) -> None:
    base = answer(adapted, BASE, 0, term=term, epoch=1)
    plain = answer(adapted, NAME, 0, term=term, epoch=2)
    before = adapted.counter("vllm:spec_decode_num_drafts_total")
    drafted = answer(adapted, NAME, K, term=term, epoch=3)
    assert adapted.counter("vllm:spec_decode_num_drafts_total") > before, "nothing was drafted"
    assert base != plain
    assert drafted == plain


def test_drafts_are_counted_for_each_adapter(adapted: Engine, term: int) -> None:
    before = scrape(adapted)
    answer(adapted, BASE, K, term=term, epoch=1)
    of_base = settled(adapted, before=before, tokens=TOKENS)
    answer(adapted, NAME, K, term=term, epoch=2)
    counted = settled(adapted, before=before, tokens=2 * TOKENS)
    for own, vllms in COUNTERS.items():
        by_adapter = counted.by(own, "adapter")
        assert by_adapter.get(BASE, 0) == of_base.total(vllms), own
        assert sum(by_adapter.values()) == counted.total(vllms), own
    assert counted.by(DRAFTED, "adapter").keys() == {BASE, NAME}


def test_a_rule_limits_requests_of_an_adapter(adapted: Engine, term: int) -> None:
    adapted.limit({"name": NAME, "maxK": 0, "when": {"loraAdapter": NAME}})
    before = scrape(adapted)
    for epoch, model in enumerate((NAME, BASE), start=1):
        answer(adapted, model, K, term=term, epoch=epoch)
    counted = settled(adapted, before=before, tokens=2 * TOKENS)
    adapted.limit()
    drafted = counted.by(DRAFTED, "adapter")
    assert drafted.get(NAME, 0) == 0 < drafted[BASE]


def test_an_engine_ends_where_an_adapter_is_missing(plugin: Path, tmp_path: Path) -> None:
    starting = running_engine(plugin, tmp_path, launch_with(tmp_path / "nowhere"))
    with pytest.raises(AssertionError, match="the engine ended with"), starting:
        pass
