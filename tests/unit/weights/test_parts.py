"""The parts of the download program that need no hub."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider_weights import hub
from outrider_weights.description import describe
from outrider_weights.failure import DownloadError, Reason, explained
from outrider_weights.hub import HubSnapshot
from outrider_weights.snapshot import File, check_space, plain_name
from outrider_weights.wanted import Artifact

SNAPSHOT = HubSnapshot(
    Artifact("model", "org/target", None), "c" * 40, (File("model.safetensors", 1000, "d" * 64),)
)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_one_of_the_operators(reason: Reason) -> None:
    assert DegradedReason(reason.value)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        ({"vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1}, (8, 4, 1)),
        ({"text_config": {"vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1}}, (8, 4, 1)),
        ({"transformer_layer_config": {"vocab_size": 8}, "hidden_size": 4}, (8, 4, None)),
        ({"vocab_size": True, "hidden_size": "4", "num_hidden_layers": 0}, (None, None, None)),
        ([], (None, None, None)),
    ],
    ids=["plain", "more than text", "Speculators", "no sizes", "no object"],
)
def test_sizes_are_read_from_the_forms_that_there_are(tmp_path: Path, config: Any, sizes: Any) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    told = describe(tmp_path)
    assert (told.get("vocabularySize"), told.get("hiddenSize"), told.get("layers")) == sizes


@pytest.mark.parametrize(
    ("config", "experts"),
    [
        ({"num_experts": 128}, 128),
        ({"text_config": {"n_routed_experts": 256}}, 256),
        ({"num_local_experts": 8}, 8),
        (
            {"block_configs": [{"n_routed_experts": 64}, {"block_type": "mamba"}, {"n_routed_experts": 128}]},
            128,
        ),
        ({"block_configs": [{"block_type": "attention"}, 3]}, None),
        ({"block_configs": 3}, None),
        ({"num_experts": 0}, None),
        ({"num_hidden_layers": 2}, None),
    ],
)
def test_a_mixture_of_experts_says_how_many(tmp_path: Path, config: Any, experts: int | None) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert describe(tmp_path).get("experts") == experts


def test_a_drafter_of_the_speculators_format_says_its_method_and_draft_length(tmp_path: Path) -> None:
    config = {
        "speculators_model_type": "eagle3",
        "speculators_config": {"proposal_methods": [{"speculative_tokens": 5}]},
        "transformer_layer_config": {"max_position_embeddings": 2048},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert describe(tmp_path) == {
        "madeForMethod": "eagle3",
        "madeForTokens": 5,
        "longestContext": 2048,
    }


@pytest.mark.parametrize(
    ("config", "architecture", "kinds"),
    [
        (
            {
                "architectures": ["Qwen3NextForCausalLM"],
                "layer_types": ["linear_attention", "full_attention"],
            },
            "Qwen3NextForCausalLM",
            "full_attention,linear_attention",
        ),
        ({"text_config": {"layer_types": ["full_attention"] * 3}}, None, "full_attention"),
        ({"architectures": ["Lfm2ForCausalLM"], "layers_block_type": ["conv"]}, "Lfm2ForCausalLM", "conv"),
        ({"architectures": ["DFlash2DraftModel"]}, "DFlash2DraftModel", None),
        ({"transformer_layer_config": {"layer_types": ["sliding_attention"]}}, None, "sliding_attention"),
        ({"architectures": "Qwen3ForCausalLM", "layer_types": "full_attention"}, None, None),
        ({"architectures": [], "layer_types": []}, None, None),
        ({"architectures": [7], "layer_types": [7, "a,b", "x" * 40]}, None, None),
    ],
)
def test_architecture_and_kinds_of_layers_are_reported(
    tmp_path: Path, config: Any, architecture: str | None, kinds: str | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    told = describe(tmp_path)
    assert (told.get("architecture"), told.get("layerKinds")) == (architecture, kinds)


def test_a_chat_template_is_the_same_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    beside = describe(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}\n")
    assert describe(tmp_path) == beside
    (tmp_path / "chat_template.jinja").write_text("{{ other }}")
    assert describe(tmp_path) != beside


def test_weights_without_a_config_are_not_described(tmp_path: Path) -> None:
    assert describe(tmp_path) == {}


def test_a_model_that_does_not_fit_is_reported_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2000, 1500, 500))
    with pytest.raises(DownloadError) as refused:
        check_space([SNAPSHOT], tmp_path)
    assert refused.value.reason is Reason.VOLUME_FULL


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        "..",
        "./a",
        "a//b",
        "a/",
        "a\\..\\b",
        "a\0b",
        "a\nb",
        "a\x1b[2J",
        "a" * 1025,
    ],
)
def test_a_name_that_is_none_of_a_file_below_the_folder_is_refused(name: str) -> None:
    with pytest.raises(DownloadError, match="rename it"):
        plain_name(name, source="the file")


@pytest.mark.parametrize(
    "name", ["config.json", "a/b/c.safetensors", "..a/b..", "-x", "ä b", ".gitattributes"]
)
def test_a_name_of_a_file_below_the_folder_is_taken_as_it_is(name: str) -> None:
    assert plain_name(name, source="the file") == name


def test_a_listed_name_that_leads_out_of_the_repository_removes_no_file_there(tmp_path: Path) -> None:
    victim = tmp_path / "hub/models--victim--m/blobs/w"
    victim.parent.mkdir(parents=True)
    victim.write_text("weights of somebody else")
    evil = (File("../../../models--victim--m/blobs/w", 1, "0" * 40),)
    snapshot = HubSnapshot(Artifact("model", "tenant/m", None), "c" * 40, evil)
    (tmp_path / snapshot.path).mkdir(parents=True)

    with pytest.raises(DownloadError, match="rename it"):
        snapshot.bring(tmp_path)
    assert victim.exists()


def test_a_link_that_leads_out_of_the_repository_removes_no_file_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: None)
    victim = tmp_path / "hub/models--victim--m/blobs/w"
    victim.parent.mkdir(parents=True)
    victim.write_text("weights of somebody else")
    link = tmp_path / SNAPSHOT.path / "model.safetensors"
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)

    with pytest.raises(DownloadError, match="leads outside"):
        SNAPSHOT.bring(tmp_path)
    assert victim.exists()


def test_a_full_volume_is_reported_as_full() -> None:
    error = explained(OSError(errno.ENOSPC, "No space left on device"), "hf://org/target")
    assert error.reason is Reason.VOLUME_FULL


def test_pieces_on_a_shared_volume_may_belong_to_another_download(tmp_path: Path) -> None:
    piece = tmp_path / "hub/models--org--target/blobs" / f"{'d' * 64}.1234.incomplete"
    piece.parent.mkdir(parents=True)
    piece.touch()
    SNAPSHOT.sweep(tmp_path, shared=True)
    assert piece.exists()
    SNAPSHOT.sweep(tmp_path, shared=False)
    assert not piece.exists()
