"""What the operator launches keeps vLLM's full CUDA graphs, by vLLM's own configuration code.

On a GPU that is only pretended: flags and environment are those of the planned pod, and vLLM says what it
would make of them. Nothing is computed and no graph is captured.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.plan import ControlKeys, PlanSettings, plan
from outrider.runtimes.vllm.limits import MAX_DEFAULT_BATCH, default_max_num_seqs
from outrider.sizing.gpus import GPUS, Gpu
from outrider_protocol.releases import RELEASES as SUPPORTED
from outrider_protocol.releases import parse_version
from tests.contract.engine import MODELS
from tests.contract.pretended import run_script, variables_of
from tests.contract.twin import eagle3

pytestmark = pytest.mark.contract

SCRIPT = Path(__file__).with_name("pretended_gpu.py")
RELEASES = tuple(release for release in SUPPORTED if parse_version(release) >= (0, 30))
V2_FOLLOWS = tuple(release for release in RELEASES if parse_version(release) >= (0, 32))
CLASSES = (
    "LlamaForCausalLM",
    "Eagle3LlamaForCausalLM",
    "MiMoForCausalLM",
    "MiMoMTPModel",
    "DFlashDraftModel",
    "DFlash2DraftModel",
    "Qwen3DSparkModel",
)
CANDIDATES = [0, 1, 2, 3, 5]
EVERY_LENGTH = [k + 1 for k in CANDIDATES]
STATIC_LENGTHS = [1, 2, 4]
"""Of the default schedule, which a stock engine keeps."""
UNLIMITED = {"dtype": "bfloat16"}
OFF = {"candidates": [5], "tuning": {"mode": "Off"}}


@dataclass(frozen=True)
class Expected:
    """A launch, and what vLLM is to make of it."""

    speculation: Mapping[str, object]
    runner: str
    mode: str
    decode_lengths: list[int]
    target: str = "target"
    engine: Mapping[str, object] = field(default_factory=dict)


FULL, PIECEWISE = "FULL_AND_PIECEWISE", "PIECEWISE"
DRAFTED = {"method": "draft_model", "drafter": "drafter"}
EAGLE3 = {"method": "eagle3", "drafter": "eagle3"}
ADAPTIVE = {"verification": "Adaptive"}
ABOVE_ADAPTIVE = "eagle3 above adaptive verification"
"""Tuned where the V2 runner follows K. Before, the operator refuses to tune it."""
BLOCKS: Mapping[str, str] = {
    "dflash": "DFlashDraftModel",
    "dflash2": "DFlash2DraftModel",
    "dspark": "Qwen3DSparkModel",
}
"""Folder of a head that drafts a block -> its architecture."""
LAUNCHES: Mapping[str, Expected] = {
    "none": Expected({"method": "none"}, "V2", FULL, [1]),
    "eagle3": Expected(EAGLE3, "V2", FULL, EVERY_LENGTH),
    "mtp": Expected({"method": "mtp"}, "V2", FULL, EVERY_LENGTH, target="mtp"),
    "eagle3 in batches of vLLM's choice": Expected(
        EAGLE3, "V2", FULL, EVERY_LENGTH, engine={"args": UNLIMITED}
    ),
    "draft_model": Expected(DRAFTED, "V2", FULL, EVERY_LENGTH),
    "draft_model on V1": Expected(DRAFTED, "V1", FULL, [6], engine={"modelRunner": "V1"}),
    "ngram": Expected({"method": "ngram"}, "V2", FULL, EVERY_LENGTH),
    "ngram_gpu": Expected({"method": "ngram_gpu"}, "V2", FULL, EVERY_LENGTH),
    "ngram on V1": Expected({"method": "ngram"}, "V1", FULL, [6], engine={"modelRunner": "V1"}),
    "ngram of one candidate": Expected({"method": "ngram", **OFF}, "V2", FULL, [6]),
    "stock ngram": Expected(
        {"method": "ngram", "tuning": {"actuation": "Rollout"}}, "V2", FULL, STATIC_LENGTHS
    ),
    "eagle3 of one candidate": Expected({**EAGLE3, **OFF}, "V2", FULL, [6]),
    "draft_model of one candidate": Expected({**DRAFTED, **OFF}, "V2", FULL, [6]),
    "eagle3 on V1": Expected(EAGLE3, "V1", FULL, [6], engine={"modelRunner": "V1"}),
    "dflash": Expected({"method": "dflash", "drafter": "dflash"}, "V2", FULL, EVERY_LENGTH),
    "dflash2": Expected({"method": "dflash", "drafter": "dflash2"}, "V2", FULL, EVERY_LENGTH),
    "dspark": Expected({"method": "dspark", "drafter": "dspark"}, "V2", FULL, EVERY_LENGTH),
    ABOVE_ADAPTIVE: Expected({**EAGLE3, **ADAPTIVE}, "V2", FULL, EVERY_LENGTH),
    "stock draft_model": Expected({**DRAFTED, "tuning": {"actuation": "Rollout"}}, "V1", PIECEWISE, []),
}
V2_BEFORE: Mapping[str, tuple[str, ...]] = {
    "0.30.0": ("none", "eagle3 of one candidate", ABOVE_ADAPTIVE, *BLOCKS),
    "0.31.0": ("none", "eagle3 of one candidate", "draft_model of one candidate", ABOVE_ADAPTIVE, *BLOCKS),
}
"""Launches for which vLLM took the V2 runner before it knew live tables there; all others had V1."""


@dataclass(frozen=True)
class Resolved:
    """What one release makes of every launch, and its largest batch on every GPU, by their names."""

    release: str
    launches: Mapping[str, Any]
    batches: Mapping[str, int]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folders by their names above; only configurations are read."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("target", "drafter"):
        (folder / name).symlink_to(MODELS / name)
    eagle3(folder / "eagle3")
    (folder / "mtp").mkdir()
    for file in (MODELS / "target").glob("*.json"):
        shutil.copy(file, folder / "mtp")
    config = json.loads((folder / "mtp" / "config.json").read_text())
    config |= {"architectures": ["MiMoForCausalLM"], "num_nextn_predict_layers": 1}
    (folder / "mtp" / "config.json").write_text(json.dumps(config))
    for name, architecture in BLOCKS.items():
        (folder / name).mkdir()
        for file in (MODELS / "target").glob("*.json"):
            shutil.copy(file, folder / name)
        (folder / name / "config.json").write_text(json.dumps(_head(architecture)))
    return folder


def _head(architecture: str) -> dict[str, object]:
    """The configuration of a head of one layer that drafts blocks of `CANDIDATES`' last K."""
    target = json.loads((MODELS / "target" / "config.json").read_text())
    own = {"mask_token_id": 0, "target_layer_ids": [0], "block_size": CANDIDATES[-1]}
    return {
        **target,
        "model_type": "qwen3",
        "architectures": [architecture],
        "num_hidden_layers": 1,
        "block_size": CANDIDATES[-1],
        "mask_token_id": 0,
        "target_layer_ids": [0],
        "dflash_config": own,
    }


@pytest.fixture(scope="module", params=RELEASES)
def resolved(
    request: pytest.FixtureRequest, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Resolved:
    release = str(request.param)
    folder = tmp_path_factory.mktemp("resolved")
    variables = variables_of(release, folder)
    classes, given, found = (folder / name for name in ("classes.json", "given.json", "found.json"))
    classes.write_text(json.dumps(CLASSES))
    run_script(SCRIPT, "look", classes, variables=variables)
    launches = [_launch(expected, models, release) for expected in LAUNCHES.values()]
    gpus = [
        {"name": f"NVIDIA {g.name}", "memory": g.memory_bytes, "capability": _capability(g)} for g in GPUS
    ]
    given.write_text(json.dumps({"launches": launches, "gpus": gpus}))
    run_script(SCRIPT, "resolve", given, found, variables=variables)
    answers = json.loads(found.read_text())
    names = [gpu.name for gpu in GPUS]
    return Resolved(
        release,
        dict(zip(LAUNCHES, answers["launches"], strict=True)),
        dict(zip(names, answers["batches"], strict=True)),
    )


@pytest.mark.parametrize("launch", LAUNCHES)
def test_vllm_keeps_the_graphs_of_what_the_operator_launches(resolved: Resolved, launch: str) -> None:
    found, expected = resolved.launches[launch], LAUNCHES[launch]
    mode, lengths = expected.mode, expected.decode_lengths
    if resolved.release not in V2_FOLLOWS and len(lengths) > 1:
        # A stock engine has its table in the flags, with which V1 has no full graphs.
        mode, lengths = (PIECEWISE, []) if launch.startswith("stock") else (mode, [6])
    assert (found["mode"], found["decodeLengths"]) == (mode, lengths)


@pytest.mark.parametrize("launch", LAUNCHES)
def test_vllm_takes_the_runner_that_the_operator_reckons_with(resolved: Resolved, launch: str) -> None:
    expected = LAUNCHES[launch].runner
    if resolved.release in V2_BEFORE:
        expected = "V2" if launch in V2_BEFORE[resolved.release] else "V1"
    assert resolved.launches[launch]["runner"] == expected


@pytest.mark.parametrize("launch", LAUNCHES)
def test_vllm_schedules_asynchronously_except_with_n_gram_on_v1(resolved: Resolved, launch: str) -> None:
    found = resolved.launches[launch]
    synchronous = found["runner"] == "V1" and LAUNCHES[launch].speculation["method"] == "ngram"
    assert found["asynchronous"] is not synchronous


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_the_largest_batch_that_is_reckoned_with_is_vllms_own(resolved: Resolved, gpu: Gpu) -> None:
    if gpu.name == "GB10" and parse_version(resolved.release) < (0, 33):
        assert resolved.batches[gpu.name] == MAX_DEFAULT_BATCH
    else:
        assert resolved.batches[gpu.name] == default_max_num_seqs(gpu.name, gpu.memory_bytes)


def _capability(gpu: Gpu) -> tuple[int, int]:
    """Of a GB10 vLLM asks for it; of the others it says nothing here."""
    return (12, 1) if gpu.name == "GB10" else (9, 0)


def _launch(expected: Expected, models: Path, release: str) -> dict[str, object]:
    """Flags and environment of the engine's container."""
    told = dict(expected.speculation)
    if (drafter := told.pop("drafter", None)) is not None:
        told["drafter"] = {"uri": f"file://{models}/{drafter}"}
    if told["method"] != "none":
        told = {"numSpeculativeTokens": 5, "candidates": CANDIDATES, **told}
    if "verification" in told and release not in V2_FOLLOWS:
        told |= OFF
    engine = {
        "version": release,
        "image": "engine:1",
        "args": {"max-num-seqs": 64, "dtype": "bfloat16"},
        **expected.engine,
    }
    model = {
        "metadata": {"name": "tiny"},
        "spec": {
            "model": {"uri": f"file://{models}/{expected.target}"},
            "speculation": told,
            "engine": engine,
        },
    }
    keys = ControlKeys(private="private", public="public")
    planned = plan(SpeculativeModel.model_validate(model), settings=PlanSettings(), keys=keys)
    deployment: Any = planned.child("Deployment")
    assert deployment is not None, planned.problems
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    runner = {e["name"]: e["value"] for e in container["env"] if e["name"] == "VLLM_USE_V2_MODEL_RUNNER"}
    return {"flags": container["args"], "variables": runner}
