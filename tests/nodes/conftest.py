"""A replica of two nodes on one machine: leader and worker of a plan as two processes of real vLLM."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.plan import ControlKeys, PlanSettings, plan
from tests.contract.engine import (
    KEY,
    MODELS,
    POD_UID,
    PYTHON,
    SERVED_NAME,
    STATIC_TABLE,
    Engine,
    end,
    environment,
    free_port,
    install_plugin,
    wait_until_healthy,
)

START_SECONDS = 1800
"""Two engines import vLLM on a machine that may have other work."""
_WITHOUT_A_POD = {"OUTRIDER_DRAIN_FILE", "OUTRIDER_SELF_TEST_FILE", "HOME", "USER", "VLLM_HOST_IP"}


@dataclass(frozen=True, slots=True)
class Group:
    """What runs: the leader as an engine, and the worker beside it."""

    leader: Engine
    worker: subprocess.Popen[bytes]


def a_model_on_two_nodes(port: int) -> SpeculativeModel:
    """The tiny target over two ranks, with a drafter that spreads as it does."""
    return SpeculativeModel.model_validate(
        {
            "metadata": {"name": "two", "namespace": "default", "uid": "u-1"},
            "spec": {
                "model": {"uri": f"file://{MODELS / 'target'}", "servedName": SERVED_NAME, "maxLength": 512},
                "speculation": {
                    "method": "draft_model",
                    "drafter": {"uri": f"file://{MODELS / 'drafter'}"},
                    "numSpeculativeTokens": 5,
                    "candidates": [0, 1, 2, 3, 5],
                },
                "engine": {
                    "version": "0.32.0",
                    "port": port,
                    "args": {"max-num-seqs": 16, "dtype": "bfloat16", "enforce-eager": True},
                },
                "parallelism": {"tensor": 2, "nodes": 2},
                "resources": {"requests": {"cpu": "1"}},
                "rollout": {"onFailure": "Hold"},
            },
        }
    )


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Worker first: it waits for its leader, as pods do that come up in any order."""
    folder = tmp_path_factory.mktemp("group")
    plugin = install_plugin(folder / "plugin")
    (folder / "key.pub").write_text(KEY.public_pem)
    (folder / "schedule.json").write_text(json.dumps(STATIC_TABLE))
    port = free_port()
    planned = plan(a_model_on_two_nodes(port), settings=PlanSettings(), keys=ControlKeys("", KEY.public_pem))
    groups: Any = planned.child("LeaderWorkerSet")
    template = groups["spec"]["leaderWorkerTemplate"]
    with ExitStack() as stack:
        worker = _started(stack, template["workerTemplate"], 1, plugin, folder)
        leader = _started(stack, template["leaderTemplate"], 0, plugin, folder)
        url, log = f"http://127.0.0.1:{port}", folder / "0.log"
        wait_until_healthy(leader, url, log, seconds=START_SECONDS)
        yield Group(Engine(url, leader, folder / "key.pub", log, {}), worker)


def _started(
    stack: ExitStack, template: Any, index: int, plugin: Path, folder: Path
) -> subprocess.Popen[bytes]:
    """The container's command, as the kubelet and the controller of LeaderWorkerSets would start it."""
    container = template["spec"]["containers"][0]
    own = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    variables = environment(
        plugin,
        **{name: value for name, value in own.items() if name not in _WITHOUT_A_POD},
        OUTRIDER_PUBLIC_KEY_FILE=str(folder / "key.pub"),
        OUTRIDER_STATIC_SCHEDULE_FILE=str(folder / "schedule.json"),
        OUTRIDER_POD_UID=POD_UID,
        OUTRIDER_SWEEP="0",
    )
    given = {"LWS_LEADER_ADDRESS": "127.0.0.1", "LWS_WORKER_INDEX": str(index)}
    words = [_expanded(word, given) for word in container["args"]]
    log = stack.enter_context((folder / f"{index}.log").open("wb"))
    process = subprocess.Popen(
        [str(PYTHON), *container["command"][1:], *words],
        env=variables,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    stack.callback(end, process)
    return process


def _expanded(word: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        word = word.replace(f"$({name})", value)
    return word
