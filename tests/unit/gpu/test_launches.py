"""What each engine of a check is started with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider_protocol.methods import Method
from tests.gpu.launches import Arm, Models, Rendered, launch
from tests.gpu.models import SMALL, Pair, make
from tests.gpu.places import CPU, GPU, INTERPRETED


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(make(Method.EAGLE3, tmp_path, SMALL), Method.EAGLE3, (0, 1, 2, 3, 5), "0.33.0+cu130", 0.3)


def speculation(rendered: Rendered) -> Any:
    prefix = "--speculative-config="
    (word,) = (word for word in rendered.flags if word.startswith(prefix))
    return json.loads(word.removeprefix(prefix))


def test_the_first_page_is_launched_as_the_operator_renders_it(models: Models) -> None:
    with_weights = replace(models, pair=Pair(models.pair.target, models.pair.drafter, made=False))
    rendered = launch(Arm.FIRST_PAGE, with_weights, GPU)
    names = [word.partition("=")[0] for word in rendered.flags]
    assert names == ["--model", "--served-model-name", "--port", "--shutdown-timeout", "--speculative-config"]
    assert {row[2] for row in speculation(rendered)["num_speculative_tokens_per_batch_size"]} == {
        0,
        1,
        2,
        3,
        5,
    }
    assert not rendered.on_v1


def test_engines_side_by_side_share_the_memory_of_the_gpu(models: Models) -> None:
    for arm in set(Arm) - {Arm.FIRST_PAGE}:
        assert "--gpu-memory-utilization=0.3" in launch(arm, models, GPU).flags, arm


def test_a_model_without_weights_accepts_by_chance(models: Models) -> None:
    rendered = launch(Arm.LIVE, models, GPU)
    assert "--load-format=dummy" in rendered.flags
    assert speculation(rendered)["rejection_sample_method"] == "synthetic"
    assert "--load-format=dummy" in launch(Arm.NONE, models, GPU).flags


def test_arms_differ_in_what_they_compare(models: Models) -> None:
    assert speculation(launch(Arm.ADAPTIVE, models, GPU))["enable_adaptive_verification"] is True
    assert "num_speculative_tokens_per_batch_size" not in speculation(launch(Arm.STATIC, models, GPU))
    assert launch(Arm.LIVE_V1, models, GPU).on_v1
    assert launch(Arm.FOLLOWING, models, GPU).variables["OUTRIDER_K0"] == "Sync"
    for arm, candidates in ((Arm.TWO, {0, 5}), (Arm.THREE, {0, 3, 5})):
        rows = speculation(launch(arm, models, GPU))["num_speculative_tokens_per_batch_size"]
        assert {row[2] for row in rows} == candidates


def test_a_dry_run_takes_the_runner_of_its_place(models: Models) -> None:
    on_cpu = replace(models, vllm="0.32.0")
    assert launch(Arm.LIVE, on_cpu, CPU).on_v1
    assert not launch(Arm.LIVE, on_cpu, INTERPRETED).on_v1
    assert launch(Arm.LIVE_V1, on_cpu, INTERPRETED).on_v1
