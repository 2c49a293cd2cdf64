"""Whether an engine can verify adaptively is known before it loads weights, by vLLM's own code.

On GPUs that are only pretended: vLLM builds the layers without storage and each names its attention backend.
Nothing is computed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.contract.engine import MODELS
from tests.contract.pretended import run_script, variables_of

pytestmark = pytest.mark.contract

SCRIPT = Path(__file__).with_name("pretended_attention.py")
INSPECT = Path(__file__).with_name("pretended_gpu.py")
PLUGIN = Path(__file__).parents[2] / "engine_image"
CLASSES = ("LlamaForCausalLM", "Lfm2ForCausalLM")
H100, A100, L40S = (9, 0), (8, 0), (8, 9)


class Launch(NamedTuple):
    """A launch with adaptive verification, and a part of what the launcher learns; None: it can."""

    gpu: tuple[int, int]
    obstacle: str | None
    model: str = "target"
    flags: tuple[str, ...] = ()


NO_GRAPHS = "the backend FLASH_ATTN of layer model.layers.0.self_attn.attn has no CUDA graphs"
ON_H100 = Launch(H100, None)
ON_A100 = Launch(A100, NO_GRAPHS)
LAUNCHES: Mapping[str, Mapping[str, Launch]] = {
    "0.32.0": {
        "FlashAttention 3 on an H100 can": ON_H100,
        "FlashAttention 2 on an A100 cannot": ON_A100,
        "FlashAttention 2 on an L40S cannot": Launch(L40S, NO_GRAPHS),
        "Triton's attention on an A100 can": Launch(A100, None, flags=("--attention-backend=TRITON_ATTN",)),
        "layers with a recurrent state cannot": Launch(H100, "backend SHORT_CONV_ATTN of layer", "recurrent"),
        "piecewise graphs cannot, in vLLM's words": Launch(
            H100,
            "Adaptive verification requires full CUDA graphs",
            flags=("--compilation-config.cudagraph_mode=PIECEWISE",),
        ),
    },
    "0.33.0": {
        "FlashAttention 3 on an H100 can": ON_H100,
        "FlashAttention 2 on an A100 cannot": ON_A100,
        "layers with a recurrent state cannot": Launch(H100, "backend SHORT_CONV_ATTN of layer", "recurrent"),
    },
    "0.31.0": {"FlashAttention 2 on an A100 cannot": ON_A100},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folders by name; only their configurations are read."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("target", "drafter"):
        (folder / name).symlink_to(MODELS / name)
    recurrent = folder / "recurrent"
    recurrent.mkdir()
    for file in (MODELS / "target").glob("*.json"):
        shutil.copy(file, recurrent)
    config = json.loads((recurrent / "config.json").read_text())
    sizes = dict.fromkeys(("conv_dim", "conv_dim_out", "block_dim"), config["hidden_size"])
    layers = {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2, "conv_L_cache": 3}
    family = {"architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "block_ff_dim": 512}
    multiple = {"block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False}
    rest = {"conv_bias": False, "norm_eps": 1e-5}
    (recurrent / "config.json").write_text(
        json.dumps({**config, **family, **layers, **sizes, **multiple, **rest})
    )
    return folder


def flags(launch: Launch, models: Path) -> list[str]:
    speculation: dict[str, Any] = {
        "method": "draft_model",
        "model": str(models / "drafter"),
        "num_speculative_tokens": 5,
        "enable_adaptive_verification": True,
    }
    words = [f"--model={models / launch.model}", "--max-num-seqs=64", "--dtype=bfloat16"]
    return [*words, f"--speculative-config={json.dumps(speculation)}", *launch.flags]


@pytest.mark.parametrize("release", LAUNCHES)
def test_the_launcher_learns_from_vllm_whether_a_gpu_can_verify_adaptively(
    release: str, models: Path, tmp_path: Path
) -> None:
    variables = variables_of(release, tmp_path)
    classes, given, found = (tmp_path / name for name in ("classes.json", "given.json", "found.json"))
    classes.write_text(json.dumps(CLASSES))
    run_script(INSPECT, "look", classes, variables=variables)
    launches = LAUNCHES[release]
    given.write_text(
        json.dumps([{"flags": flags(each, models), "capability": each.gpu} for each in launches.values()])
    )
    paths = (variables.get("PYTHONPATH", ""), str(PLUGIN), str(PLUGIN / "protocol"))
    with_plugin = {**variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    run_script(SCRIPT, given, found, variables=with_plugin)
    said = dict(zip(launches, json.loads(found.read_text()), strict=True))
    expected = {name: launch.obstacle for name, launch in launches.items()}
    assert {name: _as_expected(said[name], part) for name, part in expected.items()} == expected


def _as_expected(said: str | None, part: str | None) -> str | None:
    """The expected part where it is in what was said; else all of it."""
    return part if part is not None and said is not None and part in said else said
