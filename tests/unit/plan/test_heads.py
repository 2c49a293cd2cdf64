"""DFlash heads: which runner an engine is launched with, and whether K can change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import settled
from outrider.runtimes import runtime_of
from tests.unit.plan.factories import CACHE, a_model, a_plan, environment, flag, with_weights

RUNNER, CANDIDATES = "VLLM_USE_V2_MODEL_RUNNER", "OUTRIDER_CANDIDATES"
TABLE = "num_speculative_tokens_per_batch_size"
PLAIN = {"architecture": "DFlashDraftModel"}
SLIDING = {"architecture": "DFlashDraftModel", "layer_kinds": "full_attention,sliding_attention"}
DFLASH2 = {"architecture": "DFlash2DraftModel"}
SPECULATORS = {"architecture": "DFlashSpeculator", "made_for_method": "dflash2"}
LILICORR = {"architecture": "LiLiCorrDraftModel"}
ON_V2_ALONE = pytest.mark.parametrize("head", [SLIDING, DFLASH2, SPECULATORS, LILICORR], ids=str)


def a_head(
    uri: str = "hf://org/drafter", *, version: str = "0.31.0", runner: str | None = None, **speculation: Any
) -> SpeculativeModel:
    engine = {"version": version, "image": "engine:1", **({} if runner is None else {"modelRunner": runner})}
    return a_model(
        uri="hf://org/target",
        method="dflash",
        speculation={"drafter": {"uri": uri}, **speculation},
        engine=engine,
    )


def downloaded(head: dict[str, str], **more: Any) -> SpeculativeModel:
    model = a_head(**more)
    cached = SpeculativeModel.model_validate(
        {**model.model_dump(by_alias=True), "spec": {**model.spec.model_dump(by_alias=True), "cache": CACHE}}
    )
    return with_weights(cached, drafter=head)


def launched(model: SpeculativeModel) -> tuple[str | None, bool, str | None]:
    result = a_plan(model)
    config = json.loads(flag(result, "--speculative-config") or "{}")
    assert config["num_speculative_tokens"] == 5
    variables = environment(result)
    return variables.get(RUNNER), TABLE in config, variables.get(CANDIDATES)


def told(model: SpeculativeModel) -> str:
    return " | ".join(runtime_of(model.spec).advice(model.spec, model.status.weights))


VLLM_CHOOSES = (None, False, None)
TUNED_ON_V1 = ("0", False, "0,1,2,3,5")
TUNED_ON_V2 = (None, True, None)


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0"])
@pytest.mark.parametrize("head", [PLAIN, SLIDING, DFLASH2, SPECULATORS, LILICORR], ids=str)
def test_a_head_of_every_layout_is_tuned_on_v2_where_the_release_changes_k_there(
    head: dict[str, str], version: str
) -> None:
    model = downloaded(head, version=version)
    assert launched(model) == TUNED_ON_V2
    assert told(model) == ""
    assert launched(a_head(version=version)) == TUNED_ON_V2


@pytest.mark.parametrize("mode", ["Auto", "Observe", "Off"])
def test_a_head_of_unknown_layout_leaves_the_runner_to_vllm_and_keeps_one_k(mode: str) -> None:
    model = a_head(tuning={"mode": mode})
    assert launched(model) == VLLM_CHOOSES
    assert not settled(model).spec.live
    assert "K stays 5" in told(model)
    assert "nothing says whether this one is plain" in told(model)


@pytest.mark.parametrize(
    "uri", ["hf://z-lab/Qwen3.8-27B-DFlash2", "hf://org/x-DFlash-2-b16", "pvc://w/LiLiCorr-8B"]
)
def test_a_head_that_its_name_gives_away_is_launched_on_the_runner_that_has_it(uri: str) -> None:
    assert launched(a_head(uri)) == VLLM_CHOOSES
    assert "which only V2 has; use vLLM 0.32 or newer with V2" in told(a_head(uri))


@ON_V2_ALONE
def test_a_head_of_v2_alone_by_its_config_is_launched_with_one_k(head: dict[str, str]) -> None:
    assert launched(downloaded(head)) == VLLM_CHOOSES


def test_a_plain_head_is_tuned_on_v1() -> None:
    model = downloaded(PLAIN)
    assert launched(model) == TUNED_ON_V1
    assert "K changes on vLLM's V1 runner" in told(model)
    assert "set spec.engine.version: 0.32.0 or newer" in told(model)


def test_weights_of_another_drafter_say_nothing() -> None:
    model = downloaded(PLAIN)
    other = downloaded(PLAIN, uri="hf://org/another").spec
    assert "nothing says" in told(model.model_copy(update={"spec": other}))


def test_v2_can_be_said() -> None:
    assert launched(a_head(runner="V2")) == ("1", False, None)
    assert "K stays 5" in told(a_head(runner="V2"))
    assert launched(a_head(runner="V2", version="0.32.0")) == ("1", True, None)


def test_a_person_who_knows_that_a_head_is_plain_says_v1() -> None:
    assert launched(a_head(runner="V1")) == TUNED_ON_V1
    assert "modelRunner is V1 and the head is of such a kind" in told(a_head(runner="V1"))


@ON_V2_ALONE
def test_v1_is_refused_for_a_head_that_it_has_not(head: dict[str, str]) -> None:
    ((reason, message),) = a_plan(downloaded(head, runner="V1")).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert "V1 refuses DFlash2 and LiLiCorr heads" in message
    assert "set spec.engine.modelRunner: Auto" in message


@pytest.mark.parametrize(
    ("head", "version", "first"), [(DFLASH2, "0.27.1", "0.28.0"), (LILICORR, "0.30.0", "0.31.0")]
)
def test_a_release_that_does_not_know_the_head_is_refused(
    head: dict[str, str], version: str, first: str
) -> None:
    ((reason, message),) = a_plan(downloaded(head, version=version)).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert f"set spec.engine.version: {first} or newer" in message


def test_one_candidate_is_what_was_asked_for() -> None:
    model = a_head(candidates=[5], tuning={"mode": "Off"})
    assert launched(model) == VLLM_CHOOSES
    assert told(model) == ""
