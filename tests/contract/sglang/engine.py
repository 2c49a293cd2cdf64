"""SGLang as an engine under test: its own wheel on the CPU, with PyTorch code in place of its kernels.

A tiny target and a tiny EAGLE-3 head compute for real. Start, state and pushes are those of vLLM's engines.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outrider_protocol.environment import CANDIDATES_VARIABLE
from tests.contract.engine import (
    DTYPE,
    KEY,
    LIGHT_TARGET,
    MAX_NUM_SEQS,
    MODELS,
    PLUGIN_SOURCE,
    POD_UID,
    SERVED_NAME,
    STATIC_TABLE,
    Engine,
    install,
    serving,
)
from tests.contract.engine_process import QUIET, SGLANG, Start, fork_with_sglang
from tests.ports import free_port

PACKAGES = PLUGIN_SOURCE / "testing" / "sglang_cpu"
CANDIDATES = (0, 1, 2, 3, 5)
ON_A_CPU = (
    *("--device", "cpu"),
    *("--attention-backend", "intel_amx"),
    *("--cuda-graph-backend-decode", "disabled"),
    *("--cuda-graph-backend-prefill", "disabled"),
    *("--mem-fraction-static", "0.4"),
    *("--max-total-tokens", "8192"),
    "--sleep-on-idle",
)
"""What SGLang must read on a machine of the tests. Without the last but one it takes memory as on a GPU, and
without the last a core as long as it lives. SGLang counts as its weights what other processes allocate while
it loads, and refuses to start above the fraction."""
_LAYERS = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True, slots=True)
class Launch:
    """How an engine is started.

    plugins: SGLANG_PLUGINS. flags: come after those that every engine has.
    """

    candidates: Sequence[int] = CANDIDATES
    plugins: str = "outrider"
    flags: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def install_plugin(folder: Path) -> Path:
    """Install the plugin and the packages that replace SGLang's kernels into a folder of their own."""
    install(folder, PLUGIN_SOURCE, PLUGIN_SOURCE / "protocol", PACKAGES)
    return folder


def head(folder: Path) -> Path:
    """The tiny EAGLE-3 head for SGLang, which takes the outputs of the layers that a head names.

    vLLM takes their inputs, so the same states have a number less here. Source: the function
    `set_eagle3_layers_to_capture`
    in ``sglang/srt/models/llama.py``.
    """
    shutil.copytree(MODELS / "eagle3", folder)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config[_LAYERS] = [layer - 1 for layer in config[_LAYERS]]
    config["eagle_config"][_LAYERS] = config[_LAYERS]
    file.write_text(json.dumps(config))
    return folder


def server_flags(folder: Path, port: int, candidates: Sequence[int]) -> list[str]:
    """The flags of SGLang's server for the tiny models, which builds a state for each candidate."""
    adaptive = folder / "adaptive.json"
    adaptive.write_text(json.dumps({"1": {"candidate_steps": sorted(candidates)}}))
    most = max(candidates)
    return [
        *("--model-path", str(LIGHT_TARGET)),
        *("--served-model-name", SERVED_NAME),
        *("--host", "127.0.0.1"),
        *("--port", str(port)),
        *("--dtype", DTYPE),
        *("--context-length", "512"),
        *("--max-running-requests", str(MAX_NUM_SEQS)),
        *("--speculative-algorithm", "EAGLE3"),
        *("--speculative-draft-model-path", str(head(folder / "head"))),
        *("--speculative-num-steps", str(most)),
        *("--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(most + 1)),
        "--speculative-adaptive",
        *("--speculative-adaptive-config", str(adaptive)),
        "--enable-metrics",
        *ON_A_CPU,
    ]


@contextmanager
def running_engine(
    plugin: Path, folder: Path, launch: Launch | None = None, *, start: Start = fork_with_sglang
) -> Iterator[Engine]:
    """Start an engine, wait until it is healthy, and end it with its children."""
    launch = launch or Launch()
    key_file, schedule_file, log_file = folder / "key.pub", folder / "schedule.json", folder / "engine.log"
    key_file.write_text(KEY.public_pem)
    schedule_file.write_text(json.dumps(STATIC_TABLE))
    port = free_port()
    variables = {
        **os.environ,
        **QUIET,
        "PYTHONPATH": f"{plugin}{os.pathsep}{SGLANG}",
        "SGLANG_PLUGINS": launch.plugins,
        "OUTRIDER_PUBLIC_KEY_FILE": str(key_file),
        "OUTRIDER_POD_UID": POD_UID,
        "OUTRIDER_STATIC_SCHEDULE_FILE": str(schedule_file),
        "OUTRIDER_SWEEP": "0",
        CANDIDATES_VARIABLE: ",".join(map(str, launch.candidates)),
        **launch.variables,
    }
    flags = [*server_flags(folder, port, launch.candidates), *launch.flags]
    with log_file.open("wb") as log:
        process = start(["-m", "sglang.launch_server", *flags], variables, log)
    with serving(process, port, key_file, log_file) as engine:
        yield engine
