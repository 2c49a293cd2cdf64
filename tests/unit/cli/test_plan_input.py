"""What ``outrider plan`` reads: the config of a model, tables, and sizes that vLLM refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from outrider.cli.main import app
from tests.unit.api.admission_cases import base_manifest, merge_patch
from tests.unit.cli.plan_golden import plan
from tests.unit.lab.factories import VISIBLE
from tests.unit.sizing.factories import LLAMA

H100 = ("--gpu", "H100", "--method", "ngram")


def a_folder(parent: Path, name: str, config: str | None) -> Path:
    """A folder with this text as its config.json."""
    folder = parent / name
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(config, encoding="utf-8")
    return folder


def test_the_folder_of_a_model_stands_for_its_config(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, "my-llama", json.dumps(LLAMA))
    by_folder = json.loads(plan("--config", str(folder), *H100, "--json").stdout)
    by_file = json.loads(plan("--config", str(folder / "config.json"), *H100, "--json").stdout)
    assert by_folder == by_file
    assert by_folder["manifest"]["spec"]["model"]["uri"] == "hf://ORGANISATION/my-llama"


@pytest.mark.parametrize("folder_exists", [True, False])
def test_config_is_never_answered_for_a_known_model_of_that_name(tmp_path: Path, folder_exists: bool) -> None:
    folder = a_folder(tmp_path, "Qwen3-8B", None) if folder_exists else tmp_path / "Qwen3-8B"
    result = plan("--config", str(folder), *H100)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    told = f"--config: the folder {folder} has no config.json" if folder_exists else f"no file {folder}"
    assert told in result.stderr


def test_a_byte_order_mark_before_a_config_is_skipped(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, "my-llama", "\ufeff" + json.dumps(LLAMA))
    assert plan("--config", str(folder), *H100).exit_code == 0


def test_tables_come_from_standard_input() -> None:
    words = ["plan", "--model", "Qwen2.5-7B", "--gpu", "A40", "--tables", "-", "--table", "a40_7b", "--json"]
    result = CliRunner().invoke(app, words, input=VISIBLE.read_text(encoding="utf-8"))
    assert json.loads(result.stdout)["evidence"] == "measured"


def test_gpus_that_do_not_divide_the_heads_are_refused_with_those_that_do() -> None:
    """vLLM refuses them, too: ``ModelConfig.verify_with_parallel_config``."""
    result = plan("--model", "Qwen3-8B", *H100, "--gpus", "3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "outrider plan: --gpus is 3, and vLLM cannot divide the 32 attention heads of Qwen3-8B by that; "
        "write one of 1, 2, 4, 8, 16, 32\n"
    )


def test_a_manifest_whose_size_does_not_divide_the_heads_is_told_its_field(tmp_path: Path) -> None:
    manifest = merge_patch(base_manifest(), {"spec": {"parallelism": {"tensor": 3}}})
    file = tmp_path / "model.yaml"
    file.write_text(yaml.safe_dump(manifest))
    result = plan(str(file), "--gpu", "H100")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "spec.parallelism.tensor is 3, and vLLM cannot divide the 32 attention heads" in result.stderr


def test_no_number_of_gpus_is_proposed_that_does_not_divide_the_heads() -> None:
    """Eight small GPUs would hold Qwen2.5-7B, whose 28 heads four can share, and eight cannot."""
    small = ("--gpu-memory", "4", "--gpu-bandwidth", "1", "--gpu-tflops", "100")
    result = plan("--model", "Qwen2.5-7B", "--method", "ngram", *small, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["memory"]["enough_gpus"] is None


def test_a_list_of_kubectl_with_one_model_is_planned(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [base_manifest()]}))
    assert plan(str(file), "--gpu", "H100").exit_code == 0
