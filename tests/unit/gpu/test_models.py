"""The models of a check: found, or made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.sizing.hf_config import read_config
from outrider_protocol.methods import Method
from tests.gpu.models import (
    DRAFTER_VARIABLE,
    REAL,
    SMALL,
    TARGET_VARIABLE,
    find_or_make,
    make,
    synthetic_acceptance,
)


def downloaded(hub: Path, repository: str) -> Path:
    folder = hub / f"models--{repository.replace('/', '--')}" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("")
    return folder


def test_models_that_the_variables_name_come_first(tmp_path: Path) -> None:
    variables = {TARGET_VARIABLE: "/models/a", DRAFTER_VARIABLE: "/models/b", "HF_HUB_CACHE": str(tmp_path)}
    found = find_or_make(Method.EAGLE3, tmp_path, SMALL, variables)
    assert (found.target, found.drafter, found.made) == (Path("/models/a"), Path("/models/b"), False)


def test_a_public_pair_in_the_cache_of_hugging_face_is_found(tmp_path: Path) -> None:
    hub = tmp_path / "home" / "hub"
    target = downloaded(hub, "Qwen/Qwen3-8B")
    drafter = downloaded(hub, "RedHatAI/Qwen3-8B-speculator.eagle3")
    found = find_or_make(Method.EAGLE3, tmp_path, SMALL, {"HF_HOME": str(tmp_path / "home")})
    assert (found.target, found.drafter, found.made) == (target, drafter, False)


def test_an_incomplete_download_is_not_taken(tmp_path: Path) -> None:
    downloaded(tmp_path, "Qwen/Qwen3-8B")
    found = find_or_make(Method.EAGLE3, tmp_path / "made", SMALL, {"HF_HUB_CACHE": str(tmp_path)})
    assert found.made


@pytest.mark.parametrize("method", [Method.EAGLE3, Method.DRAFT_MODEL, Method.MTP])
def test_a_made_target_has_the_size_of_a_real_one(method: Method, tmp_path: Path) -> None:
    pair = make(method, tmp_path, REAL)
    target = read_config((pair.target / "config.json").read_text(), name="target")
    assert target.parameters == pytest.approx(8.03e9, rel=0.01)
    assert (pair.target / "tokenizer.json").exists()
    assert (pair.drafter is None) == (method is Method.MTP)


def test_a_made_head_names_its_layers_where_both_runners_read_them(tmp_path: Path) -> None:
    drafter = make(Method.EAGLE3, tmp_path, REAL).drafter
    assert drafter is not None
    config = json.loads((drafter / "config.json").read_text())
    assert config["eagle_aux_hidden_state_layer_ids"] == [2, 16, 29]
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [2, 16, 29]


def test_a_method_without_models_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"name folders in {TARGET_VARIABLE}"):
        find_or_make(Method.DFLASH, tmp_path, SMALL, {"HF_HUB_CACHE": str(tmp_path)})


@pytest.mark.parametrize("k", [1, 3, 5, 7])
def test_chances_become_rates_that_never_rise_one_per_draft(k: int) -> None:
    rates = synthetic_acceptance(k)["synthetic_acceptance_rates"]
    assert isinstance(rates, list)
    assert len(rates) == k
    assert rates[0] == 0.72
    assert rates == sorted(rates, reverse=True)
