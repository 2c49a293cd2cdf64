"""Progress and result of the download of a model's weights, from its pods to the status."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from outrider.api.conditions import StatusModel
from outrider.api.reasons import DegradedReason
from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider.cluster.objects import Metadata, Pod, Terminated, launch_failure
from outrider.cluster.resources import JOBS
from outrider.controller.reconcile.readiness import SETUP_PATIENCE, DegradedCause, pod_trouble
from outrider.foreign import read_as
from outrider.foreign.readers import DOWNLOAD_PROGRESS, WEIGHTS_RESULT
from outrider.plan.names import PROGRESS_PORT
from outrider.plan.weights.needs import DRAFTER, MODEL, Needs
from outrider.transport import PodHttp

_MAX_PODS = 3
"""Maximum number of pods that are asked. A download has one pod, and two while one of them ends."""
_FRESH_SECONDS = 4.0
"""Seconds for which an answer counts: a little less than the time between two reconciles of a download."""
_KILLS = 2
"""Ends without a message that make a failure. One may be a node that is drained."""

_REASONS = frozenset(
    {
        DegradedReason.WEIGHTS_NOT_FOUND,
        DegradedReason.WEIGHTS_REFUSED,
        DegradedReason.VOLUME_FULL,
        DegradedReason.CHECKSUM_MISMATCH,
        DegradedReason.DOWNLOAD_FAILED,
    }
)


_LARGEST = 2**53
_PATH = re.compile("[A-Za-z0-9_-][A-Za-z0-9._/-]*")
_Size = Annotated[int, Field(ge=1, le=_LARGEST)]


def _on_the_volume(path: str) -> str:
    """Check a path that becomes the model's. Anyone who may create pods in the namespace can write it."""
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        raise ValueError("the path does not lie below the root of the volume")
    return path


class _Artifact(StatusModel):
    path: Annotated[str, Field(max_length=512), AfterValidator(_on_the_volume)]
    revision: str
    size_bytes: int = Field(alias="bytes", ge=0, le=_LARGEST)
    vocabulary_size: _Size | None = None
    hidden_size: _Size | None = None
    layers: _Size | None = None
    experts: _Size | None = None
    target_hidden_size: _Size | None = None
    longest_context: _Size | None = None
    made_for_method: str | None = None
    made_for_tokens: _Size | None = None
    chat_template: str | None = None
    architecture: str | None = None
    layer_kinds: str | None = None


class _Result(BaseModel):
    model_config = ConfigDict(extra="ignore")
    weights: dict[str, _Artifact]


class _Progress(BaseModel):
    model_config = ConfigDict(extra="ignore")
    done: int = Field(ge=0, le=_LARGEST)
    total: int = Field(ge=0, le=_LARGEST)


_RESULT, _PROGRESS = TypeAdapter(_Result), TypeAdapter(_Progress)


def finished(needs: Needs, pods: Sequence[Pod]) -> WeightsStatus | None:
    """The weights of a completed download; None if no download has completed."""
    ends = (status.state.terminated for pod in pods for status in pod.status.container_statuses)
    return next((read for end in ends if end is not None and (read := _result(needs, end))), None)


def _result(needs: Needs, end: Terminated) -> WeightsStatus | None:
    if end.exit_code != 0:
        return None
    try:
        reported = read_as(WEIGHTS_RESULT, end.message, _RESULT).weights
    except ValueError:
        return None
    uris = {artifact.role: artifact.uri for artifact in needs.artifacts}
    if reported.keys() != uris.keys():
        return None
    there = {role: _status(uris[role], artifact) for role, artifact in reported.items()}
    return WeightsStatus(wanted=needs.digest, model=there.get(MODEL), drafter=there.get(DRAFTER))


def _status(uri: str, artifact: _Artifact) -> ArtifactStatus:
    size = f"{artifact.size_bytes / 1e9:.1f} GB"
    return ArtifactStatus(uri=uri, size=size, **artifact.model_dump(exclude={"size_bytes"}))


def trouble_of(pods: Sequence[Pod], now: datetime) -> DegradedCause | None:
    """The cause that stops a download; None while it progresses."""
    return next((trouble for pod in pods if (trouble := _ended_badly(pod) or pod_trouble(pod, now))), None)


def without_a_pod(job: Metadata | None, now: datetime) -> DegradedCause | None:
    """The cause if the API server refuses the Job's pod, which it reports in an Event only."""
    began = None if job is None else job.creation_timestamp
    if job is None or began is None or now - began < SETUP_PATIENCE:
        return None
    message = (
        f"The Job {job.name} has no pod. To see the cause, such as a quota: kubectl describe job {job.name}."
    )
    return DegradedCause(DegradedReason.PODS_NOT_CREATED, message)


def _ended_badly(pod: Pod) -> DegradedCause | None:
    for status in pod.status.container_statuses:
        end = status.last_end
        if end is None or end.exit_code == 0:
            continue
        failure = launch_failure(end)
        known = next((reason for reason in _REASONS if failure is not None and reason == failure[0]), None)
        if failure is not None and known is not None:
            return DegradedCause(known, failure[1])
        if status.restart_count >= _KILLS:
            cause = f" ({end.reason})" if end.reason not in ("", "Error") else ""
            message = (
                f"The download ended {status.restart_count} times, last with exit code "
                f"{end.exit_code}{cause}. Outrider resumes it with the missing files."
            )
            return DegradedCause(DegradedReason.DOWNLOAD_FAILED, message)
    return None


def of_job(pods: Sequence[Pod], job: Metadata | None) -> tuple[Pod, ...]:
    """The pods that this Job controls, by UID: any pod can carry its name."""
    uid = "" if job is None else job.uid
    return tuple(
        pod
        for pod in pods
        if any(
            reference.controller and reference.kind == JOBS.kind and reference.uid == uid != ""
            for reference in pod.metadata.owner_references
        )
    )


class ProgressReader:
    """Asks the pods of downloads for their progress, and keeps the answers for some seconds.

    timeout_seconds: for all answers about one model. clock: monotonic seconds.
    """

    def __init__(
        self,
        http: PodHttp,
        *,
        timeout_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = timeout_seconds
        self._http = http
        self._clock = clock
        self._said: dict[Hashable, tuple[float, str]] = {}

    async def progress_of(self, model: Hashable, pods: Sequence[Pod]) -> str:
        """The progress of a model's download as a phrase."""
        at, words = self._said.get(model, (-_FRESH_SECONDS, ""))
        if self._clock() - at >= _FRESH_SECONDS:
            words = await self._ask(pods)
            self._said[model] = (self._clock(), words)
        return words

    def forget(self, model: Hashable) -> None:
        """Drop a model that downloads nothing any more."""
        self._said.pop(model, None)

    async def _ask(self, pods: Sequence[Pod]) -> str:
        reachable = [pod.status.ip for pod in pods if pod.ready and pod.status.ip][:_MAX_PODS]
        progress = await _first((_asked(ip, self._http) for ip in reachable), self._timeout)
        if progress is None:
            return "Downloading"
        return f"Downloading {progress.done / 1e9:.1f} of {progress.total / 1e9:.1f} GB"


async def _first(
    asking: Iterable[Coroutine[None, None, _Progress | None]], timeout_seconds: float
) -> _Progress | None:
    """The first answer with a progress within the timeout; None without one."""
    tasks = [asyncio.create_task(each) for each in asking]
    try:
        for task in asyncio.as_completed(tasks, timeout=timeout_seconds):
            answer = await task
            if answer is not None:
                return answer
    except TimeoutError:
        pass
    finally:
        for task in tasks:
            task.cancel()
    return None


async def _asked(ip: str, http: PodHttp) -> _Progress | None:
    host = f"[{ip}]" if ":" in ip else ip
    try:
        url = f"http://{host}:{PROGRESS_PORT}/progress"
        answer = await http.ask("GET", url, most_bytes=DOWNLOAD_PROGRESS.most_bytes)
        return read_as(DOWNLOAD_PROGRESS, answer.content, _PROGRESS)
    except Exception:  # noqa: BLE001 - isolation per pod: one bad answer must not hide the others
        return None
