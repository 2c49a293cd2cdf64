"""From a Deployment and its pods to Ready, Progressing and Degraded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from outrider.api.conditions import ConditionStatus, ConditionType, ConditionUpdate
from outrider.api.reasons import AdviceReason, DegradedReason, ProgressingReason, ReadyReason
from outrider.api.text import shortened
from outrider.cluster.objects import Deployment, Pod
from outrider.controller.launch_orders import trial_refusal
from outrider.controller.reconcile.ended_engine import (
    engine_crashing,
    group_ended,
    model_not_found,
    refused_by_launcher,
)
from outrider.sizing.room import Shortage

SETUP_PATIENCE = timedelta(seconds=90)
"""Time within which a scheduled pod normally gets its volumes and network."""
_PULL_FAILURES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CREATE_FAILURES = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_MAX_DETAIL = 400
_IN_PLACE = (
    "No node had room for one more pod within rollout.surgeTimeout, so Outrider replaces serving pods one "
    "at a time. The next rollout tries an additional pod again"
)
_TRIAL = (
    "Outrider compares the new drafter on one pod with the one before, because tuning.canary is Allow. "
    "LaunchOptimal has the progress. To give it to all pods at once, set tuning.canary: Never"
)
_NOWHERE = 'failed to mkdir ""'
"""Message of containerd 1.6, as observed. From Kubernetes 1.35 on, API server and kubelet accept image
volumes without asking the runtime."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods and Deployments of one model.

    wanted: replicas that the spec asks for, a canary included. pods: all pods of the model.
    current: the pods with the wanted launch configuration that are not being deleted.
    of_spec: the pods of the spec with any launch configuration; a relaunch does not change the spec.
    returned: the last good revision is wanted, because the one of the spec failed.
    in_place: Outrider replaces pods without an additional one.
    trial: a canary has the drafter of the spec, and the replicas have the one before.
    advice: a possible improvement, reported while pods start.
    workers: the workers of current pods that lead a group.
    group_ended: why a group of this revision started again.
    overdue: groups made no progress within the deadline; a Deployment reports that as a condition.
    shortage: the estimated memory that the selected GPUs lack.
    known: the known issues of this launch.
    """

    wanted: int
    deployments: tuple[Deployment, ...]
    pods: tuple[Pod, ...]
    current: tuple[Pod, ...]
    of_spec: tuple[Pod, ...]
    returned: bool = False
    in_place: bool = False
    trial: bool = False
    advice: str | None = None
    workers: tuple[Pod, ...] = ()
    group_ended: DegradedCause | None = None
    overdue: bool = False
    shortage: Shortage | None = None
    known: tuple[str, ...] = ()

    @property
    def ready(self) -> int:
        """Number of ready pods of any revision."""
        return sum(pod.ready for pod in self.pods)

    @property
    def current_ready(self) -> int:
        """Number of ready pods with the wanted launch configuration."""
        return sum(pod.ready for pod in self.current)

    @property
    def spec_ready(self) -> int:
        """Number of ready pods of the present spec."""
        return sum(pod.ready for pod in self.of_spec)


@dataclass(frozen=True, slots=True)
class DegradedCause:
    """A cause of Degraded. message: whole sentences."""

    reason: DegradedReason
    message: str


def judge(
    workload: Workload,
    now: datetime,
    *,
    above: DegradedCause | None = None,
    besides: DegradedCause | None = None,
) -> tuple[ConditionUpdate, ...]:
    """The conditions of a model by the state of its pods; Degraded is absent if nothing is wrong.

    above: a cause that goes before those of the pods. besides: one that counts if the pods have none.
    """
    trouble = above or find_trouble(workload, now) or besides
    degraded = () if trouble is None else (_degraded(trouble),)
    return (_ready(workload), _progressing(workload), *degraded, *_known(workload))


def _known(workload: Workload) -> tuple[ConditionUpdate, ...]:
    issues = sentences(workload.known)
    return (ConditionUpdate(ConditionStatus.TRUE, AdviceReason.LAUNCH_AFFECTED, issues),) if issues else ()


def downloading(
    workload: Workload, progress: str, trouble: DegradedCause | None
) -> tuple[ConditionUpdate, ...]:
    """The conditions of a model whose weights are being downloaded; its older pods, if any, still serve."""
    degraded = () if trouble is None else (_degraded(trouble),)
    return (
        _ready(workload),
        ConditionUpdate(ConditionStatus.TRUE, ProgressingReason.DOWNLOADING, sentences([progress])),
        *degraded,
    )


def blocked(trouble: DegradedCause) -> tuple[ConditionUpdate, ...]:
    """The conditions of a model whose spec cannot be carried out; its older pods, if any, still serve."""
    see = f"{trouble.reason}: {trouble.message}"
    return (
        ConditionUpdate(ConditionStatus.FALSE, ReadyReason.BLOCKED, see),
        ConditionUpdate(ConditionStatus.FALSE, ProgressingReason.BLOCKED, see),
        _degraded(trouble),
    )


def find_trouble(workload: Workload, now: datetime) -> DegradedCause | None:
    """The first cause that a check finds; the most specific checks come first."""
    return next((trouble for check in _CHECKS if (trouble := check(workload, now))), None)


def cause(statements: Sequence[ConditionUpdate]) -> str:
    """The reason that describes a model best: that of Degraded, or of Ready if it is not degraded."""
    reasons = {statement.type: statement.reason for statement in statements}
    return reasons.get(ConditionType.DEGRADED, reasons[ConditionType.READY])


def _degraded(trouble: DegradedCause) -> ConditionUpdate:
    return ConditionUpdate(ConditionStatus.TRUE, trouble.reason, trouble.message)


def _ready(workload: Workload) -> ConditionUpdate:
    ready, wanted = workload.current_ready if workload.trial else workload.spec_ready, workload.wanted
    if wanted == 0:
        return ConditionUpdate(ConditionStatus.FALSE, ReadyReason.SCALED_TO_ZERO, "spec.replicas is 0.")
    which = "with the new drafter or the one before" if workload.trial else "of the current spec"
    serving = f"{min(ready, wanted)}/{wanted} pods {which} serve."
    if ready >= wanted:
        return ConditionUpdate(ConditionStatus.TRUE, ReadyReason.SERVING, serving)
    if workload.returned:
        serving = f"{serving} Pods of the last good revision that serve: {workload.current_ready}."
        return ConditionUpdate(ConditionStatus.FALSE, ReadyReason.ROLLED_BACK, serving)
    if ready > 0:
        return ConditionUpdate(ConditionStatus.TRUE, ReadyReason.PARTIALLY_SERVING, serving)
    return ConditionUpdate(ConditionStatus.FALSE, ReadyReason.ROLLING_OUT, serving)


def _progressing(workload: Workload) -> ConditionUpdate:
    if workload.trial:
        message = sentences((_what_is_missing(workload), _TRIAL))
        return ConditionUpdate(ConditionStatus.TRUE, ProgressingReason.COMPARING_DRAFTERS, message)
    if _complete(workload):
        return ConditionUpdate(
            ConditionStatus.FALSE, ProgressingReason.COMPLETE, "Every wanted pod is ready."
        )
    missing = _what_is_missing(workload)
    if _deadline_exceeded(workload):
        return ConditionUpdate(
            ConditionStatus.FALSE, ProgressingReason.DEADLINE_EXCEEDED, sentences([missing])
        )
    if workload.in_place:
        return ConditionUpdate(
            ConditionStatus.TRUE, ProgressingReason.IN_PLACE, sentences([missing, _IN_PLACE])
        )
    message = sentences((missing, *_foreseen(workload)))
    return ConditionUpdate(ConditionStatus.TRUE, ProgressingReason.ROLLING_OUT, message)


def _foreseen(workload: Workload) -> Iterator[str]:
    """Consequences of the spec that may do harm."""
    if workload.advice is not None:
        yield workload.advice
    if workload.shortage is not None and not workload.shortage.certain:
        yield workload.shortage.message


def _complete(workload: Workload) -> bool:
    return len(workload.pods) == len(workload.current) == workload.current_ready == workload.wanted


def _deadline_exceeded(workload: Workload) -> bool:
    return workload.overdue or any(gave_up(deployment) for deployment in workload.deployments)


def gave_up(deployment: Deployment) -> bool:
    """Whether the Deployment made no progress within its deadline."""
    return any(
        condition.type == "Progressing" and condition.reason == "ProgressDeadlineExceeded"
        for condition in deployment.conditions
    )


def _will_not_fit(workload: Workload, _: datetime) -> DegradedCause | None:
    """A serving pod disproves the estimate."""
    short = workload.shortage
    if short is None or not short.certain or workload.current_ready or not workload.wanted:
        return None
    return DegradedCause(DegradedReason.WILL_NOT_FIT, short.message)


def _not_within_the_deadline(workload: Workload, _: datetime) -> DegradedCause | None:
    if not _deadline_exceeded(workload):
        return None
    return DegradedCause(DegradedReason.DEADLINE_EXCEEDED, sentences([_what_is_missing(workload)]))


def _group_ended(workload: Workload, _: datetime) -> DegradedCause | None:
    return workload.group_ended if workload.current_ready < workload.wanted else None


def _pods_not_created(workload: Workload, _: datetime) -> DegradedCause | None:
    """The API server's answer when it refused a pod that is still missing."""
    if len(workload.current) >= workload.wanted:
        return None
    refusals = (
        condition.message
        for deployment in workload.deployments
        for condition in deployment.conditions
        if condition.type == "ReplicaFailure" and condition.holds and condition.reason == "FailedCreate"
    )
    refusal = next(refusals, None)
    if refusal is None:
        return None
    return DegradedCause(DegradedReason.PODS_NOT_CREATED, shortened(refusal, _MAX_DETAIL))


def _what_is_missing(workload: Workload) -> str:
    text = f"{workload.current_ready}/{workload.wanted} pods of the current revision are ready"
    leaving = len(workload.pods) - len(workload.current)
    if leaving:
        text += f"; pods of older ones: {leaving}"
    waits = sorted({wait for pod in workload.current if not pod.ready for wait in _waits(pod)})
    return shortened(f"{text}; waiting: {', '.join(waits)}", _MAX_DETAIL) if waits else text


def _waits(pod: Pod) -> Sequence[str]:
    return [waiting.reason for waiting in pod.waiting if waiting.reason]


def _image_pull_failed(pod: Pod, _: datetime) -> str | None:
    return _waits_for(pod, _PULL_FAILURES)


def _runtime_too_old(pod: Pod, now: datetime) -> str | None:
    """The message for a container runtime without image volumes, which fails to mount them."""
    if _NOWHERE not in (_container_not_created(pod, now) or ""):
        return None
    return "the node's container runtime cannot mount images; oci:// needs containerd 2.1 or CRI-O 1.33."


def _container_not_created(pod: Pod, _: datetime) -> str | None:
    return _waits_for(pod, _CREATE_FAILURES)


def _waits_for(pod: Pod, reasons: Collection[str]) -> str | None:
    waits = (waiting for waiting in pod.waiting if waiting.reason in reasons)
    return next((waiting.message or waiting.reason for waiting in waits), None)


def _unschedulable(pod: Pod, _: datetime) -> str | None:
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.holds or scheduled.reason != "Unschedulable":
        return None
    return None if _is_about_a_volume(scheduled.message) else scheduled.message


def _volume_not_ready(pod: Pod, now: datetime) -> str | None:
    scheduled = pod.condition("PodScheduled")
    if scheduled is None:
        return None
    if not scheduled.holds:
        return scheduled.message if _is_about_a_volume(scheduled.message) else None
    sandbox = pod.condition("PodReadyToStartContainers")
    since = scheduled.last_transition_time
    if sandbox is None or sandbox.holds or since is None or now - since < SETUP_PATIENCE:
        return None
    return f"its volumes or network are not set up {(now - since).total_seconds():.0f} s after scheduling."


def _is_about_a_volume(message: str) -> bool:
    # The scheduler has one reason for all causes; only its text separates a missing claim from a full node.
    return "persistentvolumeclaim" in message.lower() or "volume" in message.lower()


def end_of(pod: Pod, now: datetime) -> DegradedCause | None:
    """Why the engine of a pod restarted in it; None if it did not."""
    ended = group_ended(pod, now)
    if ended is None:
        return None
    missing = model_not_found(pod, now)
    reason = DegradedReason.ENGINE_CRASHING if missing is None else DegradedReason.MODEL_NOT_FOUND
    return _cause_in(pod, reason, missing or ended)


def _cause_in(pod: Pod, reason: DegradedReason, message: str) -> DegradedCause:
    return DegradedCause(reason, shortened(f"Pod {pod.metadata.name}: {message}", _MAX_DETAIL))


def sentences(parts: Iterable[str]) -> str:
    """Whole sentences out of phrases that may lack their end."""
    return " ".join(f"{part.rstrip('. ')}." for part in parts if part)


_Check = Callable[[Workload, datetime], DegradedCause | None]


def _in_a_pod(reason: DegradedReason, look: Callable[[Pod, datetime], str | None]) -> _Check:
    """A check for the first current pod or worker that is not ready and for which `look` has a message."""

    def check(workload: Workload, now: datetime) -> DegradedCause | None:
        for pod in (*workload.current, *workload.workers):
            # The tuner ends such a trial, and serving pods do not depend on it.
            message = None if pod.ready or trial_refusal(pod) else look(pod, now)
            if message is not None:
                return _cause_in(pod, reason, message)
        return None

    return check


_BEFORE_IT_RUNS: Mapping[DegradedReason, Callable[[Pod, datetime], str | None]] = {
    DegradedReason.CLUSTER_TOO_OLD: _runtime_too_old,
    DegradedReason.IMAGE_PULL_FAILED: _image_pull_failed,
    DegradedReason.CONTAINER_NOT_CREATED: _container_not_created,
    DegradedReason.UNSCHEDULABLE: _unschedulable,
    DegradedReason.VOLUME_NOT_READY: _volume_not_ready,
}


def pod_trouble(pod: Pod, now: datetime) -> DegradedCause | None:
    """The cause that keeps a pod from running; None if there is none."""
    for reason, look in _BEFORE_IT_RUNS.items():
        message = look(pod, now)
        if message is not None:
            return _cause_in(pod, reason, message)
    return None


_CHECKS: Sequence[_Check] = (
    _will_not_fit,
    _in_a_pod(DegradedReason.MODEL_NOT_FOUND, model_not_found),
    *(
        _in_a_pod(reason, refused_by_launcher(reason))
        for reason in (DegradedReason.ENGINE_IMAGE_INCOMPLETE, DegradedReason.VERIFICATION_UNAVAILABLE)
    ),
    *(_in_a_pod(reason, look) for reason, look in _BEFORE_IT_RUNS.items()),
    _in_a_pod(DegradedReason.ENGINE_CRASHING, engine_crashing),
    _group_ended,
    _pods_not_created,
    _not_within_the_deadline,
)
