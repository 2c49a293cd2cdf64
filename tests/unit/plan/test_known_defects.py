"""What releases of vLLM are known to do wrong, and what becomes of launches that meet it."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.runtimes.vllm.known_defects import KNOWN_DEFECTS, Severity
from outrider_protocol.methods import Method
from outrider_protocol.releases import NEWEST_VERSION, OLDEST_VERSION
from tests.unit.plan.factories import CACHE, CPU
from tests.unit.plan.launches import a_launch, advised, refused

EVERY_STEP = {"candidates": [1, 5], "schedule": [{"numSpeculativeTokens": 1}], "tuning": {"mode": "Off"}}
LAST_WITH_STALE_STATES, FIRST_WITHOUT = "0.31.0", "0.32.0"
DECODE_SIDE = {"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}
TOOLS = {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}


STALE = "reads a stale state"
RECURRENT = pytest.mark.parametrize(
    "target",
    [
        {"architecture": "Qwen3NextForCausalLM"},
        {"architecture": "NemotronHForCausalLM"},
        {"architecture": "KimiLinearForCausalLM"},
        {"architecture": "SomethingNew", "layer_kinds": "full_attention,linear_attention"},
        {"architecture": "Lfm2ForCausalLM", "layer_kinds": "conv,full_attention"},
    ],
    ids=str,
)


@RECURRENT
@pytest.mark.parametrize("version", ["0.26.0", "0.29.0", LAST_WITH_STALE_STATES])
def test_k0_is_refused_for_recurrent_targets_before_the_release_with_the_fix(
    target: dict[str, str], version: str
) -> None:
    told = refused(a_launch("mtp", version=version, target=target))
    assert told is not None
    assert STALE in told
    assert "vllm#56531" in told
    assert "set spec.engine.version: 0.32.0 or newer" in told


@RECURRENT
def test_the_release_with_the_fix_takes_k0(target: dict[str, str]) -> None:
    model = a_launch("mtp", version=FIRST_WITHOUT, target=target)
    assert (refused(model), advised(model)) == (None, "")


@pytest.mark.parametrize(
    "uri",
    [
        "hf://Qwen/Qwen3-Next-80B-A3B-Instruct",
        "hf://Qwen/Qwen3.6-35B-A3B",
        "s3://models/Qwen3.8-27B-NVFP4",
        "hf://nvidia/Nemotron-H-47B-Base-8K",
        "hf://nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        "hf://moonshotai/Kimi-Linear-48B-A3B-Instruct",
        "hf://ai21labs/AI21-Jamba-Mini-1.7",
        "hf://LiquidAI/LFM2-8B-A1B",
        "hf://ibm-granite/granite-4.0-h-small",
        "hf://tiiuae/Falcon-H1-34B-Instruct",
        "hf://MiniMaxAI/MiniMax-Text-01",
    ],
)
def test_a_name_gives_a_recurrent_target_away(uri: str) -> None:
    cache = {"cache": CACHE} if uri.startswith("s3") else {}
    told = refused(a_launch("mtp", version="0.29.0", uri=uri, **cache))
    assert STALE in (told or "")


def test_a_step_without_drafts_needs_no_k0_where_the_drafter_finds_nothing() -> None:
    one_k = {"candidates": [5], "tuning": {"mode": "Off"}}
    target = {"architecture": "Qwen3NextForCausalLM"}
    assert STALE in (refused(a_launch("ngram", version="0.29.0", target=target, speculation=one_k)) or "")


@pytest.mark.parametrize("speculation", [EVERY_STEP, {"candidates": [5], "tuning": {"mode": "Off"}}], ids=str)
def test_drafts_in_every_step_are_right(speculation: dict[str, Any]) -> None:
    target = {"architecture": "Qwen3NextForCausalLM"}
    assert refused(a_launch("mtp", version="0.29.0", target=target, speculation=speculation)) is None


@pytest.mark.parametrize(
    "target",
    [
        {"architecture": "Qwen3ForCausalLM"},
        {"architecture": "GraniteMoeHybridForCausalLM", "layer_kinds": "attention"},
    ],
    ids=str,
)
def test_targets_without_a_state_are_launched_without_a_word(target: dict[str, str]) -> None:
    model = a_launch("eagle3", version="0.29.0", target=target)
    assert (refused(model), advised(model)) == (None, "")


def test_an_unknown_architecture_is_launched_and_the_status_says_what_is_not_known() -> None:
    model = a_launch("eagle3", version="0.29.0")
    assert refused(model) is None
    assert "if the target has recurrent layers" in advised(model)
    assert STALE in advised(model)


@pytest.mark.parametrize(
    ("model", "number"),
    [
        (a_launch("mtp", version="0.26.0", args=TOOLS, speculation=EVERY_STEP), 44993),
        (a_launch("ngram", args=TOOLS), 40875),
        (a_launch("ngram", args={"enable-lora": True}), 20284),
        (a_launch("eagle3", args={"enable-lora": True}), 26679),
        (a_launch("draft_model", version="0.31.0", speculation={"tuning": {"mode": "Off"}}), 49548),
        (a_launch("mtp", args={"kv-transfer-config": DECODE_SIDE}), 54926),
        (a_launch("mtp", args={f"kv-transfer-config.{key}": DECODE_SIDE[key] for key in DECODE_SIDE}), 49230),
        (a_launch("eagle3", parallelism={"pipeline": 2}), 55623),
    ],
    ids=lambda part: str(part) if isinstance(part, int) else "",
)
def test_a_launch_that_meets_a_defect_is_made_and_advised(model: SpeculativeModel, number: int) -> None:
    assert refused(model) is None
    assert f"vllm#{number}" in advised(model)


@pytest.mark.parametrize(
    "model",
    [
        a_launch("mtp", version="0.27.0", args=TOOLS, speculation=EVERY_STEP, target={"architecture": "A"}),
        a_launch(
            "ngram", args=TOOLS, speculation={"config": {"prompt_lookup_min": 8, "prompt_lookup_max": 8}}
        ),
        a_launch("ngram", args={"enable-lora": False}),
        a_launch("draft_model"),
        a_launch("draft_model", resources=CPU, speculation={"tuning": {"mode": "Off"}}),
        a_launch("none", args={"enable-lora": True}),
        a_launch("eagle3"),
    ],
    ids=range(7),
)
def test_other_launches_are_not_advised(model: SpeculativeModel) -> None:
    assert advised(model) == ""


SHORT: dict[str, Any] = {"drafter": {"longest_context": 4096}, "target": {"longest_context": 32768}}


def test_a_context_that_0_33_cuts_to_the_drafters_is_told_on_v2_only() -> None:
    cut = "on V2 the engine's context shrinks to the drafter's"
    assert cut in advised(a_launch("eagle3", **SHORT))
    assert cut not in advised(a_launch("eagle3", version="0.32.0", **SHORT))
    assert cut in advised(a_launch("draft_model", **SHORT))
    assert cut not in advised(a_launch("draft_model", engine={"modelRunner": "V1"}, **SHORT))


def test_every_entry_is_complete_and_about_known_releases() -> None:
    names = [defect.name for defect in KNOWN_DEFECTS]
    assert len({*names}) == len(names)
    for defect in KNOWN_DEFECTS:
        assert OLDEST_VERSION <= defect.since <= NEWEST_VERSION
        assert defect.until is None or defect.since < defect.until
        assert defect.what
        assert defect.remedy
        assert defect.when
        assert not any(text.endswith(".") for text in (defect.what, defect.remedy, defect.when))


def test_each_kind_of_issue_is_listed() -> None:
    numbers = {number for defect in KNOWN_DEFECTS for number in defect.upstream}
    assert numbers >= {44993, 26679, 20284, 44740, 57475, 49548, 54926, 49230}
    assert {defect.severity for defect in KNOWN_DEFECTS} == set(Severity)
    assert all(Method.NONE not in (defect.methods or ()) for defect in KNOWN_DEFECTS)
