"""From the pods of a download to the status of its model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest

from outrider.cluster.objects import Metadata, Pod
from outrider.cluster.resources import CLAIMS, DEPLOYMENTS, JOBS
from outrider.controller.reconcile.downloads import ProgressReader, of_job
from outrider.transport import PodHttp
from tests.unit.controller.factories import a_condition, a_raw_model, ago
from tests.unit.controller.place import COMMIT, HUB, KEY, TARGET, CachedPlace, a_download, begun
from tests.unit.transport.played import played

NO_SECRET = 'secret "hf-token" not found'


async def test_a_download_is_told_of_while_no_pod_serves() -> None:
    place = await begun()
    assert place.conditions == {"Ready": "RollingOut", "Progressing": "Downloading"}
    assert place.weights["progress"] == "Downloading"
    assert place.has(CLAIMS, "m-weights")
    assert not place.has(DEPLOYMENTS, "m")


async def test_a_download_is_looked_at_every_few_seconds() -> None:
    place = CachedPlace()
    assert await place.reconciler.reconcile(KEY) == 5.0


async def test_engines_start_with_what_was_downloaded_and_the_job_goes() -> None:
    place = await begun()
    await place.downloads(done={"model": TARGET})
    assert place.weights["model"]["revision"] == COMMIT
    assert place.weights["model"]["size"] == "16.1 GB"
    assert place.weights["model"]["hiddenSize"] == 4096
    await place.passes()

    assert place.has(DEPLOYMENTS, "m")
    assert not [raw for raw in place.cluster.objects.values() if raw["kind"] == "Job"]
    assert place.has(CLAIMS, "m-weights")


async def test_the_commit_stays_in_the_status() -> None:
    place = await begun()
    await place.downloads(done={"model": TARGET})
    await place.passes(3)
    assert place.weights["model"]["revision"] == COMMIT


async def test_the_pod_of_a_download_counts_as_no_replica() -> None:
    place = await begun()
    await place.downloads(ready=True)
    assert place.cluster.status["m"]["replicas"] == 0


async def test_older_pods_go_on_while_another_revision_is_downloaded() -> None:
    place = await begun()
    await place.downloads(done={"model": TARGET})
    await place.passes()
    spec: dict[str, Any] = {"model": {**HUB, "revision": "v2"}, "cache": {"size": "20Gi"}}
    status = place.cluster.status["m"]
    place.store.models.put(a_raw_model(version=5_000, generation=2, status=status, **spec))
    await place.passes()

    assert place.has(DEPLOYMENTS, "m")
    assert place.conditions["Progressing"] == "Downloading"


async def test_a_result_of_another_wish_starts_no_engine() -> None:
    place = await begun()
    await place.downloads(done={"drafter": TARGET})
    assert place.conditions["Progressing"] == "Downloading"
    assert "model" not in place.weights


async def test_a_job_whose_result_is_lost_is_made_again() -> None:
    place = await begun()
    name = place.job
    raw = place.cluster.objects[JOBS.path("default", name)]
    metadata = {**raw["metadata"], "resourceVersion": "9000"}
    place.store.children[JOBS].put({**raw, "metadata": metadata, "status": {"succeeded": 1}})
    await place.passes()
    assert not place.has(JOBS, name)


@pytest.mark.parametrize(("age", "told"), [(10, False), (120, True)])
async def test_a_job_that_gets_no_pod_is_told_of_after_a_while(age: float, told: bool) -> None:
    place = await begun()
    raw = place.cluster.objects[JOBS.path("default", place.job)]
    metadata = {**raw["metadata"], "resourceVersion": "9000", "creationTimestamp": ago(age)}
    place.store.children[JOBS].put({**raw, "metadata": metadata})
    await place.passes()
    assert (place.conditions.get("Degraded") == "PodsNotCreated") is told


FAILURES = {
    "WeightsNotFound": "hf://org/target: no such revision",
    "WeightsRefused": "the hub refuses hf://org/target: set spec.model.secretRef",
    "VolumeFull": "16.1 GB are missing and the volume has 3.2 GB free",
    "ChecksumMismatch": "model.safetensors is not what the hub has",
    "DownloadFailed": "hf://org/target: ConnectError",
}


@pytest.mark.parametrize("reason", FAILURES)
async def test_a_download_that_ended_says_why_also_while_it_tries_again(reason: str) -> None:
    place = await begun()
    words = json.dumps({"reason": reason, "message": FAILURES[reason]})
    await place.downloads(ended=(1, words), restarts=1, ready=True)
    assert place.conditions["Degraded"] == reason
    assert place.trouble == FAILURES[reason]


async def test_one_kill_needs_nobody() -> None:
    place = await begun()
    await place.downloads(ended=(137, ""), restarts=1, ready=True)
    assert "Degraded" not in place.conditions


async def test_a_download_that_is_killed_again_and_again_is_told_of() -> None:
    place = await begun()
    await place.downloads(ended=(137, ""), restarts=2)
    assert place.conditions["Degraded"] == "DownloadFailed"
    assert "exit code 137" in place.trouble


async def test_a_missing_secret_is_told_at_once() -> None:
    place = await begun(model={**HUB, "secretRef": {"name": "hf-token"}})
    await place.downloads(waiting=("CreateContainerConfigError", NO_SECRET))
    assert place.conditions["Degraded"] == "ContainerNotCreated"
    assert NO_SECRET in place.trouble


async def test_a_claim_that_there_is_not_is_told() -> None:
    place = await begun(cache={"claim": "none"})
    missing = 'persistentvolumeclaim "none" not found'
    await place.downloads(
        conditions=(a_condition("PodScheduled", "False", reason="Unschedulable", message=missing),)
    )
    assert place.conditions["Degraded"] == "VolumeNotReady"


async def test_a_drafter_that_does_not_fit_starts_no_engine() -> None:
    speculation = {"method": "eagle3", "numSpeculativeTokens": 3, "drafter": {"uri": "hf://org/drafter"}}
    place = await begun(speculation=speculation)
    await place.downloads(done={"model": TARGET, "drafter": {**TARGET, "hiddenSize": 2048}})
    await place.passes()

    assert place.conditions["Degraded"] == "DrafterMismatch"
    assert "4096" in place.trouble
    assert "2048" in place.trouble
    assert not place.has(DEPLOYMENTS, "m")


async def test_a_drafter_that_is_made_for_less_is_advised_of_while_engines_start() -> None:
    speculation = {"method": "draft_model", "numSpeculativeTokens": 3, "drafter": {"uri": "hf://org/drafter"}}
    place = await begun(speculation=speculation)
    target = {**TARGET, "longestContext": 8192}
    await place.downloads(done={"model": target, "drafter": {**target, "longestContext": 2048}})
    await place.passes(2)

    assert "2048 tokens" in place.weights["advice"]
    assert "2048 tokens" in place.cluster.conditions("m")["Progressing"]["message"]
    assert "Degraded" not in place.conditions
    assert place.has(DEPLOYMENTS, "m")


async def test_everything_that_is_made_goes_with_the_model() -> None:
    place = await begun()
    made = [raw for raw in place.cluster.objects.values() if raw["kind"] in ("Job", "PersistentVolumeClaim")]
    assert [raw["metadata"]["ownerReferences"][0]["uid"] for raw in made] == ["uid-m", "uid-m"]


def a_running_pod(**what: Any) -> Pod:
    return Pod.model_validate(a_download("m-dl-1", **{"ready": True, **what}))


def answering(body: bytes, status: int = 200) -> PodHttp:
    return played(lambda _: httpx.Response(status, stream=httpx.ByteStream(body)))


async def told(pods: Sequence[Pod], http: PodHttp) -> str:
    return await ProgressReader(http).progress_of(KEY, pods)


async def test_progress_is_told_in_gigabytes() -> None:
    http = answering(b'{"done": 12340000000, "total": 16100000000}')
    assert await told([a_running_pod()], http) == "Downloading 12.3 of 16.1 GB"


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"no", 200), (b'{"done": -1, "total": 1}', 200), (b"", 404), (b"x" * 5000, 200)],
    ids=["no JSON", "no sizes", "no page", "far too much"],
)
async def test_a_pod_that_tells_nothing_usable_is_downloading_all_the_same(body: bytes, status: int) -> None:
    assert await told([a_running_pod()], answering(body, status)) == "Downloading"


async def test_a_pod_without_an_address_is_not_asked() -> None:
    assert await told([a_running_pod(ip="")], answering(b"", 500)) == "Downloading"


async def test_an_address_that_is_none_is_no_failure_of_the_pass() -> None:
    assert await told([a_running_pod(ip="no address")], answering(b"")) == "Downloading"


class Silent:
    """Pods whose connections are taken and never answered, but for the addresses in ``answers``."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self.asked: list[str] = []
        self._answers = answers
        self.http = played(self._answer)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host)
        if request.url.host not in self._answers:
            await asyncio.Event().wait()
        return httpx.Response(200, stream=httpx.ByteStream(self._answers[request.url.host]))


def running_pods(count: int) -> list[Pod]:
    return [a_running_pod(suffix=str(index), ip=f"10.0.0.{index}") for index in range(count)]


async def test_a_silent_pod_does_not_delay_the_answer_of_another() -> None:
    pods = Silent({"10.0.0.1": b'{"done": 1000000000, "total": 2000000000}'})
    assert await told(running_pods(3), pods.http) == "Downloading 1.0 of 2.0 GB"


async def test_silent_pods_together_cost_the_time_of_one() -> None:
    pods = Silent({})
    reader = ProgressReader(pods.http, timeout_seconds=0.01)
    assert await reader.progress_of(KEY, running_pods(40)) == "Downloading"
    # Asked one after the other, only the first would have been asked in that time.
    assert pods.asked == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]


async def test_what_a_download_said_is_remembered_for_some_seconds() -> None:
    pods = Silent({"10.0.0.0": b'{"done": 1000000000, "total": 2000000000}'})
    now = 100.0
    reader = ProgressReader(pods.http, clock=lambda: now)

    async def looks() -> list[str]:
        return [await reader.progress_of(KEY, running_pods(1)) for _ in range(3)]

    assert await looks() == ["Downloading 1.0 of 2.0 GB"] * 3
    assert len(pods.asked) == 1
    now += 4.9
    await looks()
    assert len(pods.asked) == 2
    reader.forget(KEY)
    await looks()
    assert len(pods.asked) == 3


JOB = Metadata(name="m-dl-1", uid="uid-m-dl-1")


@pytest.mark.parametrize(
    ("change", "believed"),
    [
        ({}, True),
        ({"uid": "anything"}, False),
        ({"uid": ""}, False),
        ({"controller": False}, False),
        ({"kind": "ReplicaSet"}, False),
    ],
    ids=["its own", "another UID", "no UID", "not the controller", "another kind"],
)
def test_a_pod_is_believed_where_this_very_job_controls_it(change: dict[str, Any], believed: bool) -> None:
    raw = a_download("m-dl-1")
    raw["metadata"]["ownerReferences"][0].update(change)
    assert bool(of_job([Pod.model_validate(raw)], JOB)) is believed


@pytest.mark.parametrize("job", [None, Metadata(name="m-dl-1")])
def test_no_pod_is_believed_before_the_job_is_known(job: Metadata | None) -> None:
    raw = a_download("m-dl-1")
    raw["metadata"]["ownerReferences"][0]["uid"] = ""
    assert of_job([Pod.model_validate(raw)], job) == ()


async def test_a_pod_that_only_names_the_job_brings_no_weights() -> None:
    place = await begun()
    raw = a_download(place.job, done={"model": TARGET})
    raw["metadata"]["ownerReferences"][0]["uid"] = "anything"
    place.store.pods.put(raw)
    await place.passes(2)

    assert place.conditions["Progressing"] == "Downloading"
    assert not place.has(DEPLOYMENTS, "m")


@pytest.mark.parametrize(
    "wrong",
    [
        {"bytes": int("9" * 400)},
        {"bytes": -1},
        {"layers": 0},
        {"path": "../../elsewhere"},
        {"path": "hub/../../elsewhere"},
        {"path": "/etc"},
        {"path": ""},
        {"path": "hub/a\x1b[2J"},
        {"path": "hub/" + "a" * 600},
    ],
)
async def test_a_result_that_no_download_writes_starts_no_engine(wrong: dict[str, Any]) -> None:
    place = await begun()
    await place.downloads(done={"model": {**TARGET, **wrong}})

    assert place.conditions["Progressing"] == "Downloading"
    assert "model" not in place.weights
