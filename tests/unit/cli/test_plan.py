"""``outrider plan``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from outrider.api.resource import SpeculativeModel
from outrider.sizing.room import shortage
from outrider.sizing.tasks import Task
from outrider_protocol.methods import Method
from outrider_protocol.schedule import Schedule
from tests.unit.cli import plan_golden
from tests.unit.cli.plan_golden import plan
from tests.unit.lab.factories import VISIBLE
from tests.unit.sizing.factories import LLAMA

EXAMPLES = Path(__file__).parents[3] / "examples"
QWEN = ("--model", "Qwen3-8B", "--gpu", "H100")
EXAMPLE = str(EXAMPLES / "qwen3-8b-eagle3.yaml")


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "my-llama").mkdir()
    path = tmp_path / "my-llama" / "config.json"
    path.write_text(json.dumps(LLAMA))
    return str(path)


@pytest.mark.parametrize("task", Task)
def test_what_is_printed_is_the_golden_text(task: Task) -> None:
    hint = "if the change is meant: `python -m tests.unit.cli.plan_golden --write`, then read the diff"
    assert plan_golden.printed(task) == plan_golden.expected(task), hint


@pytest.mark.parametrize(("arguments", "printed"), plan_golden.runs_of_the_guide())
def test_the_guide_shows_what_is_printed(arguments: str, printed: str) -> None:
    hint = "`python -m tests.unit.cli.plan_golden --write`, then read the diff"
    assert plan_golden.printed_for(arguments) == printed, hint


def test_the_guide_shows_a_run() -> None:
    assert len(plan_golden.runs_of_the_guide()) == 1


@pytest.mark.parametrize(("name", "arguments"), plan_golden.RUNS.items())
def test_a_file_and_a_table_are_planned_as_the_golden_text_has_it(name: str, arguments: str) -> None:
    hint = "`python -m tests.unit.cli.plan_golden --write`, then read the diff"
    assert plan_golden.printed_for(arguments) == plan_golden.expected(name), hint


@pytest.mark.parametrize(
    "arguments",
    [
        (*QWEN, "--price-per-hour", "98.40", "--gpus", "8", "--streams", "500"),
        (EXAMPLE, "--gpu", "GB10"),
        ("--model", "Llama-3.1-405B-FP8", "--gpu", "H200", "--gpus", "8", "--drafter", "Llama-3.2-3B"),
    ],
)
def test_every_line_of_text_fits_80_columns(arguments: tuple[str, ...]) -> None:
    text, _, numbers = plan(*arguments).stdout.partition("A manifest to start with")
    rest = numbers.partition("Where the numbers")[2]
    assert all(len(line) <= 80 for line in (text + rest).splitlines())


@pytest.mark.parametrize("task", Task)
@pytest.mark.parametrize(
    "extra", [(), ("--method", "ngram"), ("--drafter", "Qwen3-0.6B"), ("--method", "none")]
)
def test_the_manifest_is_one_that_admission_takes(task: Task, extra: tuple[str, ...]) -> None:
    result = plan(*QWEN, "--task", task, "--manifest", *extra)
    model = SpeculativeModel.model_validate(yaml.safe_load(result.stdout))
    assert model.spec.model.uri == "hf://Qwen/Qwen3-8B"
    assert model.metadata.name == "qwen3-8b"


def test_the_published_drafter_of_a_model_is_proposed() -> None:
    found = json.loads(plan(*QWEN, "--json").stdout)
    assert found["manifest"]["spec"]["speculation"]["drafter"] == {
        "uri": "hf://RedHatAI/Qwen3-8B-speculator.eagle3"
    }


def test_json_names_the_published_drafters_with_method_length_source_and_day() -> None:
    found = json.loads(plan(*QWEN, "--json").stdout)["known_drafters"]
    assert {
        "target": "Qwen/Qwen3-8B",
        "uri": "hf://z-lab/Qwen3-8B-DFlash-b16",
        "method": "dflash",
        "draft_tokens": 15,
        "source": "README of github.com/z-lab/dflash at 44947fb",
        "read": "2026-04-26",
    } in found


def test_a_model_without_published_drafters_has_no_section_of_them() -> None:
    assert "Published drafters" not in plan("--model", "Qwen2.5-7B", "--gpu", "H100").stdout


def test_a_model_without_a_published_drafter_drafts_from_its_own_text_and_says_so() -> None:
    result = plan("--model", "Qwen2.5-7B", "--gpu", "H100")
    assert "method: ngram" in result.stdout
    assert "n-gram finds nothing in most texts" in result.stdout


@pytest.mark.parametrize("name", ["Qwen3-Coder-30B-A3B-Instruct", "Llama-3.1-70B-Instruct", "Qwen3-8B-FP8"])
def test_a_model_is_not_replaced_by_one_of_the_same_size(name: str) -> None:
    made = json.loads(plan("--model", name, "--gpu", "H200", "--gpus", "2", "--json").stdout)["manifest"]
    assert made["spec"]["model"]["uri"] == f"hf://ORGANISATION/{name}"


def test_other_weights_are_another_checkpoint() -> None:
    made = json.loads(plan(*QWEN, "--weights", "fp8", "--json").stdout)["manifest"]
    assert made["spec"]["model"]["uri"] == "hf://ORGANISATION/Qwen3-8B-FP8"


def test_the_drafter_of_a_model_is_not_proposed_for_another_of_its_size() -> None:
    made = json.loads(plan("--model", "Llama-3.1-70B-Instruct-FP8", "--gpu", "H200", "--json").stdout)[
        "manifest"
    ]
    assert made["spec"]["speculation"]["method"] == "ngram"


def test_json_has_the_figures_and_their_evidence() -> None:
    found = json.loads(plan(*QWEN, "--price-per-hour", "2.40", "--json").stdout)
    assert found["memory"]["verdict"] == "fits"
    assert found["evidence"] == "formula"
    assert found["speeds"][0]["dollars_without"] == pytest.approx(
        2.4 / 3600 / found["speeds"][0]["without"] * 1e6
    )
    assert {source["evidence"] for source in found["sources"]} <= {"formula", "read", "measured", "assumed"}
    assert found["manifest"]["kind"] == "SpeculativeModel"


def test_a_file_is_judged_as_it_is() -> None:
    found = json.loads(plan(EXAMPLE, "--gpu", "H100", "--json").stdout)
    assert found["candidates"] == [0, 1, 2, 3, 5]
    assert found["manifest"] is None
    assert [row["k"] for row in found["speeds"] if row["streams"] in (8, 32)] == [3, 1]


def test_a_file_keeps_all_but_k_when_a_task_is_named() -> None:
    before = yaml.safe_load(Path(EXAMPLE).read_text())
    made = json.loads(plan(EXAMPLE, "--gpu", "H100", "--task", "code", "--json").stdout)["manifest"]
    assert made["spec"]["speculation"]["numSpeculativeTokens"] == 7
    for one in (before, made):
        for key in ("numSpeculativeTokens", "candidates", "schedule"):
            del one["spec"]["speculation"][key]
    assert made == before


def test_the_gpu_of_a_file_is_that_of_its_node_selector() -> None:
    found = json.loads(plan(str(EXAMPLES / "llama-ngram.yaml"), "--json").stdout)
    assert (found["gpu"], found["gpus"], found["weights"]) == ("H100", 4, "fp8")


def test_a_slice_is_not_taken_for_the_whole_gpu(tmp_path: Path) -> None:
    raw = yaml.safe_load((EXAMPLES / "llama-ngram.yaml").read_text())
    selector = raw["spec"]["podTemplate"]["spec"]["nodeSelector"]
    selector["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"
    path = tmp_path / "slice.yaml"
    path.write_text(yaml.safe_dump(raw))
    found = plan(str(path))
    assert (found.exit_code, "say which GPU with --gpu" in found.stderr) == (2, True)


def test_the_share_of_memory_of_a_file_is_kept(tmp_path: Path) -> None:
    raw = yaml.safe_load(Path(EXAMPLE).read_text())
    raw["spec"]["engine"]["args"]["gpu-memory-utilization"] = 0.5
    path = tmp_path / "half.yaml"
    path.write_text(yaml.safe_dump(raw))
    found = json.loads(plan(str(path), "--gpu", "A100-80GB", "--json").stdout)
    assert found["memory"]["available_bytes"] == 0.5 * 81_920 * 2**20


GUIDES_70B = ("--model", "Llama-3.3-70B-Instruct-FP8", "--gpu", "H100", "--method", "eagle3")


def test_a_larger_share_of_memory_is_proposed_before_more_gpus() -> None:
    """The rules of thumb serve a 70B model in 8 bits with an EAGLE-3 head on one H100, at a ratio of 0.94."""
    result = plan(*GUIDES_70B, "--streams", "1")
    assert result.exit_code == 1
    assert "try --memory-share 0.94 or --gpus 2" in " ".join(result.stdout.split())
    assert plan(*GUIDES_70B, "--streams", "1", "--memory-share", "0.94").exit_code == 0


def test_no_share_is_proposed_that_leaves_the_driver_too_little() -> None:
    found = json.loads(plan("--model", "Llama-3.3-70B", "--gpu", "H100", "--json").stdout)
    assert found["memory"]["enough_share"] is None


@pytest.mark.parametrize("option", ["--memory-share", "--gpu-memory-utilization"])
def test_the_share_of_memory_is_in_the_manifest(option: str) -> None:
    made = yaml.safe_load(plan(*QWEN, option, "0.9", "--manifest").stdout)
    assert made["spec"]["engine"]["args"] == {"gpu-memory-utilization": 0.9}
    assert "engine" not in yaml.safe_load(plan(*QWEN, "--manifest").stdout)["spec"]


def test_the_share_of_memory_takes_the_place_of_the_one_in_the_file(tmp_path: Path) -> None:
    raw = yaml.safe_load(Path(EXAMPLE).read_text())
    raw["spec"]["engine"]["args"]["gpu_memory_utilization"] = 0.5
    path = tmp_path / "half.yaml"
    path.write_text(yaml.safe_dump(raw))
    given = (str(path), "--gpu", "H100", "--memory-share", "0.9", "--task", "chat", "--json")
    found = json.loads(plan(*given).stdout)
    assert found["memory"]["memory_share"] == 0.9
    args = found["manifest"]["spec"]["engine"]["args"]
    assert {flag: value for flag, value in args.items() if "utilization" in flag} == {
        "gpu-memory-utilization": 0.9
    }


def test_the_label_of_a_node_names_its_gpu() -> None:
    label = plan("--model", "Qwen3-8B", "--gpu", "NVIDIA-H100-80GB-HBM3", "--json").stdout
    assert label == plan(*QWEN, "--json").stdout


@pytest.mark.parametrize("option", ["--config", "--model"])
def test_an_unknown_model_is_planned_from_its_config(config: str, option: str) -> None:
    known = json.loads(
        plan("--model", "Llama-3.1-8B", "--method", "eagle3", "--gpu", "H100", "--json").stdout
    )
    found = json.loads(plan(option, config, "--method", "eagle3", "--gpu", "H100", "--json").stdout)
    assert found["memory"] == known["memory"]
    assert found["manifest"]["spec"]["model"]["uri"] == "hf://ORGANISATION/my-llama"


def test_a_gpu_of_ones_own_is_taken() -> None:
    own = ("--gpu-memory", "100", "--gpu-bandwidth", "2", "--gpu-tflops", "500")
    found = json.loads(plan("--model", "Qwen3-8B", *own, "--json").stdout)
    assert found["memory"]["available_bytes"] == pytest.approx(92e9)


def test_measured_throughputs_take_the_place_of_the_formula() -> None:
    given = ("--tables", str(VISIBLE), "--table", "a40_7b")
    found = json.loads(plan("--model", "Qwen2.5-7B", "--gpu", "A40", *given, "--json").stdout)
    assert found["evidence"] == "measured"
    assert {row["streams"]: row["without"] for row in found["speeds"]}[16] == pytest.approx(461.5)
    assert found["candidates"] == [0, 1, 2, 3]


def test_what_does_not_fit_ends_with_1() -> None:
    result = plan("--model", "Llama-3.3-70B", "--gpu", "H100")
    assert result.exit_code == 1
    assert "does not fit: no room for one request of 4096 tokens; try --gpus 2" in result.stdout
    assert "A manifest to start with" not in result.stdout


def test_there_is_no_manifest_of_what_does_not_fit() -> None:
    result = plan("--model", "Llama-3.3-70B", "--gpu", "H100", "--manifest")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "try --gpus 2" in result.stderr


def test_the_manifest_alone_is_printed_in_the_form_that_is_asked_for() -> None:
    plain = plan(*QWEN, "--manifest").stdout
    assert json.loads(plan(*QWEN, "--manifest", "-o", "json").stdout) == yaml.safe_load(plain)
    assert plan(*QWEN, "--manifest", "-o", "yaml").stdout == plain


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_no_form_prints_a_manifest_of_what_does_not_fit(form: str) -> None:
    result = plan("--model", "Llama-3.3-70B", "--gpu", "H100", "--manifest", "-o", form)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "try --gpus 2" in result.stderr


def test_the_gpus_that_are_told_are_enough() -> None:
    told = json.loads(plan("--model", "Llama-3.1-405B", "--gpu", "H100", "--json").stdout)["memory"][
        "enough_gpus"
    ]
    assert plan("--model", "Llama-3.1-405B", "--gpu", "H100", "--gpus", str(told)).exit_code == 0


def test_a_drafter_of_another_vocabulary_is_told() -> None:
    result = plan(*QWEN, "--drafter", "Llama-3.2-1B")
    assert "use_heterogeneous_vocab: true" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name a manifest, or a model with --model"),
        (("--model", "Qwen3-8B"), "say which GPU with --gpu"),
        (("--model", "nobody/knows", "--gpu", "H100"), "give its config.json with --config"),
        (("--model", "no-such.json", "--gpu", "H100"), "there is no file no-such.json"),
        (("--model", "Qwen3-8B", "--gpu", "H900"), "GPU H900 is not known"),
        ((*QWEN, "--task", "poems"), "--task is poems; use one of chat"),
        ((*QWEN, "--method", "magic"), "--method is magic"),
        ((*QWEN, "--method", "custom_class"), "Outrider launches no engine with method custom_class"),
        ((*QWEN, "--method", "draft_model"), "name it with --drafter"),
        (
            (*QWEN, "--method", "mtp"),
            "--method: vLLM refuses mtp with Qwen3-8B, because the model has no layer",
        ),
        ((*QWEN, "--method", "ngram", "--drafter", "Qwen3-0.6B"), "has no drafter"),
        ((*QWEN, "--drafter", "nobody/knows"), "give its config.json with --drafter"),
        ((*QWEN, "--weights", "fp3"), "--weights is fp3"),
        ((*QWEN, "--acceptance", "1"), "--acceptance is 1"),
        ((*QWEN, "--acceptance", "nan"), "--acceptance is nan"),
        ((*QWEN, "--streams", "0"), "--streams is 0"),
        ((*QWEN, "--context", "-1"), "--context is -1"),
        ((*QWEN, "--gpus", "0"), "--gpus is 0"),
        ((*QWEN, "--price-per-hour", "-2"), "--price-per-hour is -2"),
        ((*QWEN, "--gpu-memory", "inf"), "--gpu-memory is inf"),
        ((*QWEN, "--memory-share", "1.1"), "--memory-share is 1.1"),
        ((*QWEN, "--memory-share", "nan"), "--memory-share is nan"),
        (("--model", "Qwen3-8B", "--gpu", "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"), "is not known"),
        ((*QWEN, "--table", "a40_7b"), "name the file with --tables"),
        ((*QWEN, "--tables", str(VISIBLE)), "name one with --table"),
        ((*QWEN, "--tables", str(VISIBLE), "--table", "x"), "no table 'x'"),
        (("--model", "s3://bucket/Qwen3-8B", "--gpu", "H100"), "downloaded onto a volume first"),
        (("no-such.yaml",), "there is no file no-such.yaml"),
        ((str(VISIBLE),), "holds no SpeculativeModel"),
        ((str(EXAMPLES / "tiny-draft-model.yaml"), "--gpu", "H100"), "give its config.json with --config"),
        ((EXAMPLE, "--model", "Qwen3-8B"), "leave out --model and --method"),
        ((*QWEN, "--method", "eagle3", "--drafter", "head.json"), "the size of an eagle3 head follows"),
        ((EXAMPLE, "--gpu", "H100", "--manifest"), "add --task to have one proposed"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(arguments: tuple[str, ...], complaint: str) -> None:
    result = plan(*arguments)
    assert complaint in result.stderr
    assert (result.exit_code, len(result.stderr.splitlines()), result.stdout) == (2, 1, "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "is not YAML"),
        (
            "apiVersion: outrider.dev/v1alpha1\nkind: SpeculativeModel\nmetadata: {name: x}\nspec: {}",
            "spec.model: write the model to serve",
        ),
        ("[" * 2_000, "is not YAML"),
        ("- 1", "holds no SpeculativeModel"),
        ("{kind: SpeculativeModel}\n---\n{kind: SpeculativeModel}", "holds 2 objects"),
    ],
)
def test_a_bad_file_ends_with_2_and_a_line_for_each_mistake(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(text)
    result = plan(str(path))
    assert complaint in result.stderr
    assert result.exit_code == 2
    assert all(line.startswith(f"outrider plan: {path}") for line in result.stderr.splitlines())


def test_an_engine_without_figures_gets_no_answer_of_another_one(tmp_path: Path) -> None:
    path = tmp_path / "sglang.yaml"
    path.write_text((Path(__file__).parents[3] / "examples" / "qwen3-8b-sglang.yaml").read_text())
    result = plan(str(path), "--gpu", "H100")
    assert result.exit_code == 2
    assert "Outrider has no figures for memory and speed of SGLang" in result.stderr


GPT_OSS = {
    "model_type": "gpt_oss",
    "num_hidden_layers": 36,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "vocab_size": 201088,
    "sliding_window": 128,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
}
DFLASH = {**LLAMA, "model_type": "qwen3", "num_hidden_layers": 5}


def written(folder: Path, fields: dict[str, object]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return str(path)


@pytest.mark.parametrize("by", ["config", "name"])
def test_gpt_oss_120b_fits_one_h100(tmp_path: Path, by: str) -> None:
    given = ("--config", written(tmp_path, GPT_OSS)) if by == "config" else ("--model", "gpt-oss-120b")
    result = plan(*given, "--gpu", "H100", "--method", "eagle3", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["memory"]["verdict"] == "fits"
    assert found["memory"]["weights_bytes"] / 1e9 == pytest.approx(65.2, abs=0.5)
    assert found["weights"] == "mxfp4"


def test_an_unknown_quantisation_gets_no_verdict_but_what_to_pass(tmp_path: Path) -> None:
    path = written(tmp_path, {**LLAMA, "quantization_config": {"quant_method": "exl3"}})
    result = plan("--config", path, "--gpu", "H100")
    assert result.exit_code == 2
    assert "whether it fits is not known: weights: quantisation exl3; pass --weights" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Speed: not known" in result.stdout
    assert "A manifest to start with" not in result.stdout
    assert "bf16" not in result.stdout
    assert plan("--config", path, "--gpu", "H100", "--manifest").exit_code == 2
    assert plan("--config", path, "--gpu", "H100", "--weights", "int4").exit_code == 0


def test_the_quantisation_that_modelopt_writes_beside_a_config_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, LLAMA)
    beside = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    found = json.loads(plan("--config", path, "--gpu", "H100", "--json").stdout)
    assert found["weights"] == "nvfp4"


def test_a_draft_model_in_an_unknown_format_is_not_counted_and_leaves_its_room(tmp_path: Path) -> None:
    path = written(tmp_path, {**LLAMA, "quantization_config": {"quant_method": "exl3"}})
    result = plan(*QWEN, "--drafter", path)
    assert result.exit_code == 2
    assert "the drafter (weights: quantisation exl3" in result.stderr


def test_unknown_layers_get_no_verdict_whatever_the_weights(tmp_path: Path) -> None:
    path = written(tmp_path, {**LLAMA, "model_type": "nemotron_h", "hybrid_override_pattern": "M*"})
    for given in ((), ("--weights", "int4")):
        result = plan("--config", path, "--gpu", "H100", *given)
        assert result.exit_code == 2
        assert "layers with hybrid_override_pattern" in result.stderr
        assert "start it once, vLLM logs the size of weights and cache" in result.stderr


def test_a_block_drafter_is_planned_with_its_memory_and_no_speed(tmp_path: Path) -> None:
    given = (*QWEN, "--method", "dflash", "--drafter", written(tmp_path, DFLASH))
    result = plan(*given)
    assert result.exit_code == 0
    reason = "Speed: not known, since only a manifest says how many tokens the drafter's block has"
    assert reason in " ".join(result.stdout.split())
    found = json.loads(plan(*given, "--json").stdout)
    assert found["memory"]["verdict"] == "fits"
    assert found["memory"]["drafter_bytes"] / 1e9 == pytest.approx(2.2, abs=0.1)
    assert (found["speeds"], found["manifest"]) == ([], None)


def test_a_block_drafter_of_unknown_size_leaves_its_room() -> None:
    result = plan(*QWEN, "--method", "dflash")
    assert result.exit_code == 2
    assert "GB are left for it on each GPU; give its config.json with --drafter" in result.stderr


def test_suffix_drafts_have_no_weights_and_an_unknown_speed() -> None:
    found = json.loads(plan(*QWEN, "--method", "suffix", "--json").stdout)
    assert (found["memory"]["verdict"], found["memory"]["drafter_bytes"]) == ("fits", 0.0)
    assert found["no_speeds"] == "the formula does not have the cost of a suffix draft"


def glm(folder: Path, **parallelism: object) -> str:
    raw = yaml.safe_load(Path(EXAMPLE).read_text())
    raw["spec"]["model"]["uri"] = "hf://zai-org/GLM-4.7-FP8"
    raw["spec"]["speculation"] = {"method": "none"}
    raw["spec"]["parallelism"] = parallelism
    raw["spec"]["podTemplate"] = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"}}}
    path = folder / "glm.yaml"
    path.write_text(yaml.safe_dump(raw))
    return str(path)


@pytest.mark.parametrize(
    ("parallelism", "gpus", "fits"),
    [
        ({"data": 8, "expert": True}, 8, True),
        ({"tensor": 2, "pipeline": 2}, 4, True),
        ({"tensor": 2}, 2, False),
    ],
)
def test_plan_and_operator_count_the_gpus_of_a_file_alike(
    tmp_path: Path, parallelism: dict[str, object], gpus: int, fits: bool
) -> None:
    path = glm(tmp_path, **parallelism)
    found = json.loads(plan(path, "--context", "4096", "--json").stdout)
    assert found["gpus"] == gpus
    assert (found["memory"]["verdict"] != "too large") is fits
    spec = SpeculativeModel.model_validate(yaml.safe_load(Path(path).read_text())).spec
    assert (shortage(spec, None, share=0.92) is None) is fits


@pytest.mark.parametrize(
    ("args", "verdict"),
    [
        ({"kv-cache-dtype": "fp8"}, "fits"),
        ({"load-format": "safetensors"}, "fits"),
        ({"quantization": "bitsandbytes"}, "not known"),
        ({"cpu-offload-gb": 10}, "not known"),
        ({"dtype": "float32"}, "not known"),
    ],
)
def test_flags_that_load_other_weights_or_another_cache_are_read_or_said(
    tmp_path: Path, args: dict[str, object], verdict: str
) -> None:
    raw = yaml.safe_load(Path(EXAMPLE).read_text())
    raw["spec"]["engine"]["args"] = args
    path = tmp_path / "flags.yaml"
    path.write_text(yaml.safe_dump(raw))
    found = json.loads(plan(str(path), "--gpu", "H100", "--json").stdout)
    assert found["memory"]["verdict"] == verdict


def test_the_rows_have_the_k_of_the_manifest_and_say_why_not_another() -> None:
    result = plan(*QWEN, "--json")
    found = json.loads(result.stdout)
    schedule = Schedule.from_wire(found["manifest"]["spec"]["speculation"]["schedule"])
    assert all(row["k"] == schedule.k_at(row["streams"]) for row in found["speeds"])
    text = " ".join(plan(*QWEN).stdout.split())
    assert "K: that of the manifest below. At 64 streams it has K=0; K=2 would give 1.42" in text
    assert "off above 32. The tuner measures which is right" in text


def test_the_verdicts_come_first() -> None:
    lines = plan(*QWEN).stdout.splitlines()
    assert lines[0] == "fits: the cache has room for 95 streams"
    assert lines[1] == "24.1 GB needed, 78.7 GB usable (92 % of 85.5)"
    assert lines[2] == "speedup 1.37 at 8 streams with K=2, formula"


def test_a_model_with_a_layer_for_next_tokens_drafts_with_it() -> None:
    made = json.loads(plan("--model", "GLM-4.5-Air", "--gpu", "H200", "--gpus", "4", "--json").stdout)
    assert made["manifest"]["spec"]["speculation"]["method"] == "mtp"
    assert any(row["k"] > 0 for row in made["speeds"])


def test_a_manifest_with_mtp_for_a_model_without_such_a_layer_is_refused_by_its_field(
    tmp_path: Path,
) -> None:
    manifest = yaml.safe_load(Path(EXAMPLE).read_text(encoding="utf-8"))
    manifest["spec"]["speculation"] = {"method": "mtp", "numSpeculativeTokens": 1}
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump(manifest))
    result = plan(str(path), "--gpu", "H100")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "spec.speculation.method: vLLM refuses mtp with Qwen3-8B" in result.stderr


def test_mtp_with_a_drafter_of_its_own_needs_no_layer_in_the_model() -> None:
    result = plan(
        "--model", "gemma-3-27b-it", "--gpu", "H200", "--method", "mtp", "--drafter", "a/gemma-assistant"
    )
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("method", ["eagle", "eagle3", "p_eagle", "dflash"])
def test_a_whole_model_is_no_head(method: str) -> None:
    result = plan(*QWEN, "--method", method, "--drafter", "Qwen3-0.6B")
    words = " ".join(result.stdout.split())
    assert f"Qwen3-0.6B is a whole model and no drafter for {method}" in words
    assert "use method draft_model" in words


@pytest.mark.parametrize("method", Method)
def test_every_method_is_planned_or_refused_in_one_line(method: Method) -> None:
    result = plan(*QWEN, "--method", method)
    assert result.exit_code in (0, 2)
    assert result.exit_code == 0 or len(result.stderr.splitlines()) == 1
