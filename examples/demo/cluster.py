"""The cluster as the demo's user sees it: apply, wait, patch, read status, run the load client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_kube_config

from outrider.api.status import Status
from outrider.cluster.client import ClusterClient
from outrider.cluster.resources import MODELS, PODS, JsonObject

FIELD_MANAGER = "outrider-demo"
MODEL_LABEL = "outrider.dev/model"


class DemoFailed(Exception):
    """The demo cannot go on; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which cluster. None: kubectl's own default."""

    kubeconfig: Path | None
    context: str | None
    kubectl: str = "kubectl"

    @property
    def kubectl_command(self) -> list[str]:
        """kubectl with the flags that select the cluster."""
        flags = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        return [self.kubectl, *flags, *([f"--context={self.context}"] if self.context else [])]

    async def api(self) -> ApiClient:
        """A connection to the API server."""
        configuration = Configuration()
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(self.kubeconfig) if self.kubeconfig else None,
            context=self.context,
            client_configuration=configuration,
        )
        return ApiClient(configuration)


@dataclass(frozen=True, slots=True)
class PodCount:
    """The engine pods: each pod's uid and how often its containers were restarted."""

    restarts: Mapping[str, int]

    def restarts_since(self, earlier: PodCount) -> int:
        """Container restarts and replaced pods since then."""
        gone = len(earlier.restarts.keys() - self.restarts.keys())
        return gone + sum(count - earlier.restarts.get(uid, 0) for uid, count in self.restarts.items())


@dataclass(frozen=True)
class Cluster:
    """One namespace of one cluster."""

    place: Place
    api: ApiClient
    namespace: str
    client: ClusterClient = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "client", ClusterClient(self.api))

    async def apply(self, manifest: JsonObject) -> None:
        """Server-side apply into this namespace."""
        metadata = {**manifest["metadata"], "namespace": self.namespace}
        await self.client.apply({**manifest, "metadata": metadata}, manager=FIELD_MANAGER)

    async def model(self, name: str) -> JsonObject | None:
        """The SpeculativeModel, None when there is none."""
        return await self.client.get(MODELS, self.namespace, name)

    async def status(self, name: str) -> Status:
        """The model's status; raises DemoFailed when somebody deleted the model."""
        model = await self.model(name)
        if model is None:
            raise DemoFailed(f"SpeculativeModel {name} is gone")
        return Status.model_validate(model.get("status") or {})

    async def delete_model(self, name: str) -> None:
        """Delete the model and wait until its pods are gone, so that a run starts from nothing."""
        model = await self.model(name)
        if model is not None:
            await self.client.delete(MODELS, self.namespace, name, uid=model["metadata"]["uid"])
        while await self.model(name) is not None or (await self.engine_pods(name)).restarts:
            await asyncio.sleep(1)

    async def engine_pods(self, name: str) -> PodCount:
        """Uids and restarts of the engine pods that exist now."""
        pods, _ = await self.client.list_all(PODS, self.namespace, labels=f"{MODEL_LABEL}={name}")
        return PodCount({pod["metadata"]["uid"]: _restarts(pod) for pod in pods})

    async def get_raw(self, path: str) -> dict[str, Any]:
        """GET any path of the API server that answers JSON."""
        process = await self._kubectl("get", "--raw", path)
        out, error = await process.communicate()
        if process.returncode != 0:
            raise DemoFailed(f"GET {path}: {error.decode(errors='replace').strip()}")
        answer: dict[str, Any] = json.loads(out)
        return answer

    async def exec_lines(self, pod: str, *command: str) -> AsyncGenerator[str]:
        """Run a command in a pod and yield its output line by line.

        Raises:
            DemoFailed: it ended with an error.
        """
        process = await self._kubectl("-n", self.namespace, "exec", pod, "--", *command)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async for line in process.stdout:
                yield line.decode(errors="replace").rstrip("\n")
            error = (await process.stderr.read()).decode(errors="replace").strip()
            if await process.wait() != 0:
                raise DemoFailed(f"the load client ended with an error: {error[-500:]}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _kubectl(self, *arguments: str) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.place.kubectl_command,
                *arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError as error:
            raise DemoFailed(f"{self.place.kubectl} is not installed; make cluster brings one") from error


def _restarts(pod: JsonObject) -> int:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return sum(status["restartCount"] for status in statuses)
