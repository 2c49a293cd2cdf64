"""The load client's pod, and a steady load through it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from examples.kit.cluster import Cluster, RunFailed
from examples.kit.loads import TURN_SECONDS, Load, Prompts
from examples.kit.prompts import Kind, prompts
from examples.kit.records import Count
from outrider.cluster.resources import CONFIG_MAPS, PODS, JsonObject

NAME = "outrider-demo-client"
FOLDER = "/client"
READY_SECONDS = 120.0
TEXT = "twin_text"
"""Extra argument of a request that names the class of text of a simulated engine's answer."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Sends OpenAI requests from inside the cluster, through the model's Service.

    numbered: each prompt ends with the number of its request, so that no answer comes twice.
    few: number of prompts that a load uses, at least one for each stream. So a short load has the same texts
    as a long one. None: all prompts.
    """

    cluster: Cluster
    image: str
    url: str
    model: str
    max_tokens: int
    temperature: float
    seed: int = 0
    name: str = NAME
    """Name of the client's pod and of its ConfigMap."""
    numbered: bool = False
    few: int | None = None

    async def start(self) -> None:
        """Bring up the client's pod with the script and the prompts of this checkout."""
        await self.stop()
        await self.cluster.apply(_config_map(self.name))
        await self.cluster.apply(_pod(self.name, self.image))
        deadline = time.monotonic() + READY_SECONDS
        while not await self._is_ready():
            if time.monotonic() > deadline:
                raise RunFailed(f"pod {self.name} did not start within {READY_SECONDS:.0f} s; describe it")
            await asyncio.sleep(1)

    async def stop(self) -> None:
        """Delete the client's pod and wait until it is gone."""
        for resource in (PODS, CONFIG_MAPS):
            found = await self.cluster.client.get(resource, self.cluster.namespace, self.name)
            if found is not None:
                uid = found["metadata"]["uid"]
                await self.cluster.client.delete(resource, self.cluster.namespace, self.name, uid=uid)
        while await self.cluster.client.get(PODS, self.cluster.namespace, self.name) is not None:
            await asyncio.sleep(0.5)

    async def hold(self, load: Load, seconds: float) -> AsyncGenerator[Count]:
        """Hold a load for `seconds`; yields the counts of each second as it passes."""
        files = (f"{FOLDER}/{kind}.json" for kind in load.prompts.kinds)
        prompts = [part for flag in zip(("--prompts", "--alternate"), files) for part in flag]  # noqa: B905
        command = (
            *("python3", f"{FOLDER}/load_client.py", "--url", self.url, "--model", self.model),
            *("--streams", str(load.streams), "--seconds", str(seconds), *prompts),
            *("--max-tokens", str(self.max_tokens), "--temperature", str(self.temperature)),
            *("--seed", str(self.seed)),
            *(("--turn", str(TURN_SECONDS)) if load.prompts is Prompts.TURNS else ()),
            *(("--context", str(load.context)) if load.context else ()),
            *(() if self.few is None else ("--few", str(self.few))),
            *(("--numbered",) if self.numbered else ()),
            *(("--body", json.dumps({"vllm_xargs": {TEXT: load.text}})) if load.text else ()),
        )
        async with aclosing(self.cluster.exec_lines(self.name, *command)) as lines:
            async for line in lines:
                yield Count.model_validate_json(line)

    async def _is_ready(self) -> bool:
        pod = await self.cluster.client.get(PODS, self.cluster.namespace, self.name)
        conditions = (pod or {}).get("status", {}).get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _config_map(name: str) -> JsonObject:
    script = Path(__file__).with_name("load_client.py").read_text()
    texts = {f"{kind}.json": json.dumps(prompts(kind)) for kind in Kind}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"load_client.py": script, **texts},
    }


def _pod(name: str, image: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": NAME}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "client",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", "import signal; signal.pause()"],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "client", "mountPath": FOLDER, "readOnly": True}],
                }
            ],
            "volumes": [{"name": "client", "configMap": {"name": name}}],
        },
    }
