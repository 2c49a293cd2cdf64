"""The report of a reconcile, by what the pods and objects of a model show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.api.conditions import ConditionUpdate
from outrider.api.quantity import duration_seconds
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.cluster.objects import Deployment, Metadata, Pod
from outrider.cluster.resources import DEPLOYMENTS, JOBS
from outrider.controller.reconcile.downloads import (
    ProgressReader,
    finished,
    of_job,
    trouble_of,
    without_a_pod,
)
from outrider.controller.reconcile.groups import NO_GROUPS, GroupsSeen
from outrider.controller.reconcile.readiness import DegradedCause, Workload, blocked, downloading, judge
from outrider.controller.reconcile.report import Report
from outrider.controller.reconcile.revisions import Revisions, launch_of, revision_label, role
from outrider.controller.reconcile.rollouts import Rollouts
from outrider.controller.store import Store
from outrider.controller.stored import Key
from outrider.plan import Plan, Rendered, Role, Serving
from outrider.plan.names import MODEL_LABEL, canary_deployment
from outrider.plan.weights.fit import advice
from outrider.plan.weights.needs import Needs, needs_of
from outrider.runtimes import runtime_of
from outrider.runtimes.artifacts import each_pod_downloads
from outrider.sizing.room import Shortage, shortage

_EACH_DOWNLOADS = (
    "Each pod downloads the weights, also after a restart. To download them once for all pods, set spec.cache"
)
_REQUEUE_SECONDS = 30.0
_MIN_REQUEUE_SECONDS = 5.0
_DOWNLOAD_REQUEUE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Download:
    """The Job that downloads weights.

    job: None before it is created. pods: the ones that the Job controls. weights: None until it is complete.
    """

    name: str
    needs: Needs
    job: Metadata | None
    pods: tuple[Pod, ...]
    weights: WeightsStatus | None

    @property
    def lost(self) -> bool:
        """Whether no pod has a result, so that a completed Job has to be repeated."""
        return self.weights is None and not self.pods

    def trouble(self, now: datetime) -> DegradedCause | None:
        """The cause that stops the download; None without one."""
        if self.weights is not None:
            return None
        return trouble_of(self.pods, now) if self.pods else without_a_pod(self.job, now)


class Observer:
    """Reads the store, and makes reports. now: wall clock."""

    def __init__(
        self,
        store: Store,
        rollouts: Rollouts,
        revisions: Revisions,
        downloads: ProgressReader,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._rollouts = rollouts
        self._revisions = revisions
        self._downloads = downloads
        self._now = now

    def serving(self, key: Key, rendered: Rendered) -> Serving:
        """The pods that serve now, on which a canary depends."""
        ready = tuple(pod for pod in self._store.pods_of(key) if pod.ready)
        canaries = tuple(pod for pod in ready if role(pod) is Role.CANARY)
        current = self._revisions.of_spec(key, rendered, canaries)
        replicas = len(ready) - len(canaries)
        if not current:
            return Serving(replicas)
        return Serving(replicas, len(current), launch_of(current[0]))

    def progress(
        self,
        key: Key,
        rendered: Rendered,
        wanted: Plan,
        *,
        above: DegradedCause | None = None,
        besides: DegradedCause | None = None,
        groups: GroupsSeen = NO_GROUPS,
    ) -> Report:
        """The report of a planned model. above, besides: see `judge`."""
        model, pods, memory = rendered.model, self._store.pods_of(key), self._rollouts.memory(key)
        weights = _advised(model)
        workload = Workload(
            wanted=model.spec.replicas,
            deployments=self._deployments(key, wanted),
            pods=pods,
            current=tuple(pod for pod in _staying(pods) if revision_label(pod) in wanted.revisions),
            of_spec=self._revisions.of_spec(key, rendered, _staying(pods)),
            returned=memory.returned is not None,
            in_place=memory.in_place,
            trial=memory.trying,
            advice=_advice_at_the_start(model, weights),
            workers=groups.workers,
            group_ended=groups.group_ended,
            overdue=groups.overdue,
            shortage=_missing_memory(model.spec, weights),
            known=self._known_issues(model),
        )
        statements = judge(workload, self._now(), above=above, besides=besides)
        waiting = workload.current_ready < workload.wanted or besides is not None
        # No event marks the end of a wait.
        patience = max(_MIN_REQUEUE_SECONDS, duration_seconds(model.spec.rollout.surge_timeout))
        requeue_after = min(_REQUEUE_SECONDS, patience) if waiting else None
        return _report(key, workload, statements, model.spec.replicas, requeue_after, weights)

    def download(self, key: Key, wanted: Plan) -> Download:
        """The state of a download that the plan contains."""
        job = wanted.child(JOBS.kind)
        assert job is not None
        assert wanted.download is not None
        metadata = job["metadata"]
        assert isinstance(metadata, dict)
        name = str(metadata["name"])
        made = self._store.children[JOBS].get(Key(key.namespace, name))
        found = None if made is None else made.metadata
        pods = of_job(_staying(self._store.downloads_of(key)), found)
        return Download(name, wanted.download, found, pods, finished(wanted.download, pods))

    async def downloading(
        self, key: Key, model: SpeculativeModel, download: Download, *, besides: DegradedCause | None
    ) -> Report:
        """The report while weights are downloaded. Engines start with the reconcile after it completes.

        besides: a cause that counts if the download has none.
        """
        weights = download.weights
        if weights is None:
            progress = await self._downloads.progress_of(key, download.pods)
        else:
            progress = "All weights are downloaded"
            self._downloads.forget(key)
        workload = Workload(model.spec.replicas, (), self._store.pods_of(key), (), ())
        return _report(
            key,
            workload,
            downloading(workload, progress, download.trouble(self._now()) or besides),
            model.spec.replicas,
            _DOWNLOAD_REQUEUE_SECONDS if weights is None else 0.0,
            weights or WeightsStatus(wanted=download.needs.digest, progress=progress),
        )

    def blocked(self, key: Key, cause: DegradedCause, requeue_after_seconds: float | None = None) -> Report:
        """The report of a model whose spec cannot be carried out."""
        workload = Workload(0, (), self._store.pods_of(key), (), ())
        stored = self._store.models.get(key)
        wanted = stored.model.spec.replicas if stored is not None and stored.model is not None else None
        weights = stored.status.weights if stored is not None else None
        return _report(key, workload, blocked(cause), wanted, requeue_after_seconds, weights)

    def _known_issues(self, model: SpeculativeModel) -> tuple[str, ...]:
        """The known issues of this launch, one sentence each. They do not prevent it."""
        known = runtime_of(model.spec).advice(model.spec, model.status.weights)
        peer = model.spec.engine.kv_transfer_peer
        if peer is None or self._store.model(Key(model.metadata.namespace, peer)) is not None:
            return known
        missing = (
            f"spec.engine.kvTransferPeer names {peer}, and the namespace has no such SpeculativeModel, so "
            "speculation on both sides is not compared; create it, or remove the field"
        )
        return (*known, missing)

    def _deployments(self, key: Key, wanted: Plan) -> tuple[Deployment, ...]:
        names = (key.name, canary_deployment(key.name)) if wanted.canary_revision else (key.name,)
        cache = self._store.children[DEPLOYMENTS]
        stored = (cache.get(Key(key.namespace, name)) for name in names)
        return tuple(
            entry.deployment for entry in stored if entry is not None and entry.deployment is not None
        )


def _advised(model: SpeculativeModel) -> WeightsStatus | None:
    """The downloaded weights, with advice on how the present spec uses them."""
    weights = model.status.weights
    if weights is None or needs_of(model) is None:
        return None
    return weights.model_copy(update={"advice": advice(model.spec, weights)})


def _advice_at_the_start(model: SpeculativeModel, weights: WeightsStatus | None) -> str | None:
    """Advice for the time in which pods start, in one sentence; None if there is none."""
    if model.spec.replicas > 1 and each_pod_downloads(model.spec):
        return _EACH_DOWNLOADS
    return f"Note: {weights.advice}" if weights is not None and weights.advice is not None else None


def _missing_memory(spec: Spec, weights: WeightsStatus | None) -> Shortage | None:
    """The memory that the selected GPUs lack; None if it is enough or unknown."""
    try:
        share = runtime_of(spec).gpu_memory_share(spec.engine.args)
    except ValueError:  # The engine reports it.
        return None
    return shortage(spec, weights, share=share)


def _staying(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.metadata.deletion_timestamp is None)


def _report(
    key: Key,
    workload: Workload,
    statements: tuple[ConditionUpdate, ...],
    wanted: int | None,
    requeue_after_seconds: float | None,
    weights: WeightsStatus | None,
) -> Report:
    return Report(
        statements=statements,
        wanted=wanted,
        replicas=len(workload.pods),
        ready_replicas=workload.ready,
        updated_replicas=len(workload.current),
        selector=f"{MODEL_LABEL}={key.name}",
        url=f"http://{key.name}.{key.namespace}.svc",
        weights=weights,
        requeue_after_seconds=requeue_after_seconds,
    )
