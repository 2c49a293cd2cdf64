"""The cluster as a user sees it: apply, delete, read status, run a command in a pod."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_kube_config

from examples.kit.status import why
from outrider.api.status import Status
from outrider.cluster.client import ClusterClient
from outrider.cluster.resources import MODELS, PODS, JsonObject
from outrider.plan.names import MODEL_LABEL

FIELD_MANAGER = "outrider-demo"
PROMETHEUS = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"
"""Where the API server reaches it, so that nothing needs to be forwarded."""
POLL_SECONDS = 0.2


class RunFailed(Exception):
    """A run cannot continue; the message is one sentence for the user."""


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
    """Some pods: each one's uid and how often its containers were restarted."""

    restarts: Mapping[str, int]

    @classmethod
    def of(cls, pods: Iterable[JsonObject]) -> PodCount:
        """Return the state of pods from the API server's answer."""
        return cls({pod["metadata"]["uid"]: _restarts(pod) for pod in pods})

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

    async def apply_model(self, manifest: JsonObject) -> int:
        """Apply a SpeculativeModel; the generation of its spec that this made."""
        await self.apply(manifest)
        return int((await self._model(manifest["metadata"]["name"]))["metadata"]["generation"])

    async def model(self, name: str) -> JsonObject | None:
        """The SpeculativeModel, None when there is none."""
        return await self.client.get(MODELS, self.namespace, name)

    async def status(self, name: str) -> Status:
        """Return the model's status; raise RunFailed if the model was deleted."""
        return Status.model_validate((await self._model(name)).get("status") or {})

    async def wait(
        self,
        name: str,
        done: Callable[[Status], bool],
        complaint: str,
        seconds: float,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Wait until the model's status is as wanted; `tell` gets each new state of progress.

        Raises:
            RunFailed: not in time; begins with the complaint.
        """
        deadline, told = time.monotonic() + seconds, ""
        while not done(status := await self.status(name)):
            progress = why(status)
            if progress != told:
                tell(progress)
                told = progress
            if time.monotonic() > deadline:
                raise RunFailed(f"{complaint} within {seconds:.0f} s: {progress}")
            await asyncio.sleep(POLL_SECONDS)

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
        return PodCount.of(pods)

    async def kubectl(self, *arguments: str) -> str:
        """What kubectl prints on this cluster; raises RunFailed with its error."""
        return await output(*self.place.kubectl_command, *arguments)

    async def get_raw(self, path: str) -> dict[str, Any]:
        """GET any path of the API server that answers JSON."""
        answer: dict[str, Any] = json.loads(await self.kubectl("get", "--raw", path))
        return answer

    async def exec_lines(self, pod: str, *command: str) -> AsyncGenerator[str]:
        """Run a command in a pod and yield its output line by line.

        Raises:
            RunFailed: it ended with an error.
        """
        flags = ("-n", self.namespace, "exec", pod, "--")
        process = await start(*self.place.kubectl_command, *flags, *command)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async for line in process.stdout:
                yield line.decode(errors="replace").rstrip("\n")
            error = (await process.stderr.read()).decode(errors="replace").strip()
            if await process.wait() != 0:
                raise RunFailed(f"the load client ended with an error: {error[-500:]}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _model(self, name: str) -> JsonObject:
        model = await self.model(name)
        if model is None:
            raise RunFailed(f"SpeculativeModel {name} is gone")
        return model


def address(model: str, namespace: str) -> str:
    """Where clients in the cluster send requests to a model."""
    return f"http://{model}.{namespace}.svc/v1"


async def output(*command: str) -> str:
    """What a command prints.

    Raises:
        RunFailed: it is not installed, or ended with an error.
    """
    process = await start(*command)
    out, error = await process.communicate()
    if process.returncode != 0:
        raise RunFailed(f"{shlex.join(command)}: {error.decode(errors='replace').strip()[-500:]}")
    return out.decode()


async def start(*command: str) -> asyncio.subprocess.Process:
    """Start a command with pipes; raises RunFailed where it is not installed."""
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except FileNotFoundError as error:
        raise RunFailed(f"{command[0]} is not installed; make cluster brings one") from error


def _restarts(pod: JsonObject) -> int:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return sum(status["restartCount"] for status in statuses)
