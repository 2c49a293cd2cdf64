"""The load client's pod, and one phase of load through it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from examples.demo.cluster import Cluster, DemoFailed
from examples.demo.measure import Second
from examples.demo.phases import Phase
from examples.demo.prompts import Kind, prompts
from outrider.cluster.resources import CONFIG_MAPS, PODS, JsonObject

NAME = "outrider-demo-client"
FOLDER = "/client"
READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Sends OpenAI requests from inside the cluster, through the model's Service."""

    cluster: Cluster
    image: str
    url: str
    model: str
    max_tokens: int
    temperature: float
    seed: int = 0

    async def start(self) -> None:
        """Bring up the client's pod with the script and the prompts of this checkout."""
        await self.stop()
        await self.cluster.apply(_config_map())
        await self.cluster.apply(_pod(self.image))
        deadline = time.monotonic() + READY_SECONDS
        while not await self._is_ready():
            if time.monotonic() > deadline:
                raise DemoFailed(f"pod {NAME} did not start within {READY_SECONDS:.0f} s; describe it")
            await asyncio.sleep(1)

    async def stop(self) -> None:
        """Delete the client's pod and wait until it is gone."""
        for resource in (PODS, CONFIG_MAPS):
            found = await self.cluster.client.get(resource, self.cluster.namespace, NAME)
            if found is not None:
                uid = found["metadata"]["uid"]
                await self.cluster.client.delete(resource, self.cluster.namespace, NAME, uid=uid)
        while await self.cluster.client.get(PODS, self.cluster.namespace, NAME) is not None:
            await asyncio.sleep(0.5)

    async def drive(self, phase: Phase, seconds: float) -> AsyncGenerator[Second]:
        """Hold the phase's load for `seconds`; yields the counts of each second as it passes."""
        async with aclosing(self.hold(phase.streams, (phase.kind,), seconds)) as counts:
            async for second in counts:
                yield second

    async def hold(self, streams: int, kinds: Sequence[Kind], seconds: float) -> AsyncGenerator[Second]:
        """The same for any load. kinds: one, or two whose prompts are sent in turn."""
        files = (f"{FOLDER}/{kind}.json" for kind in kinds)
        prompts = [part for flag in zip(("--prompts", "--alternate"), files) for part in flag]  # noqa: B905
        command = (
            *("python3", f"{FOLDER}/load.py", "--url", self.url, "--model", self.model),
            *("--streams", str(streams), "--seconds", str(seconds), *prompts),
            *("--max-tokens", str(self.max_tokens), "--temperature", str(self.temperature)),
            *("--seed", str(self.seed)),
        )
        async with aclosing(self.cluster.exec_lines(NAME, *command)) as lines:
            async for line in lines:
                yield read_second(line)

    async def _is_ready(self) -> bool:
        pod = await self.cluster.client.get(PODS, self.cluster.namespace, NAME)
        conditions = (pod or {}).get("status", {}).get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def read_second(line: str) -> Second:
    """One line of the load client's output."""
    counts = json.loads(line)
    return Second(
        time=counts["time"],
        seconds=counts["seconds"],
        tokens=counts["tokens"],
        requests=counts["requests"],
        failed=counts["failed"],
        errors=tuple(counts["errors"]),
    )


def _config_map() -> JsonObject:
    script = Path(__file__).with_name("load.py").read_text()
    texts = {f"{kind}.json": json.dumps(prompts(kind)) for kind in Kind}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME},
        "data": {"load.py": script, **texts},
    }


def _pod(image: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": NAME}},
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
                    "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "client", "mountPath": FOLDER, "readOnly": True}],
                }
            ],
            "volumes": [{"name": "client", "configMap": {"name": NAME}}],
        },
    }
