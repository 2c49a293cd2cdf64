"""From a Deployment and its pods to Ready, Progressing and Degraded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from outrider.api.conditions import ConditionStatus, Statement
from outrider.api.reasons import AdviceReason, ConditionType, DegradedReason, ProgressingReason, ReadyReason
from outrider.api.text import shortened
from outrider.cluster.objects import ContainerStatus, Deployment, Pod, launch_failure
from outrider.plan.names import CONTAINER
from outrider.plan.runtimes import missing_model
from outrider.sizing.room import Shortage

SETUP_PATIENCE = timedelta(seconds=90)
"""Longest time in which a scheduled pod normally gets its volumes and network."""
CRASHES = 2
"""Restarts after which a container that is not ready counts as crashing."""

USAGE_ERROR = 2
"""Exit code of a program that does not take its flags, now or ever."""

_PULL_FAILURES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CREATE_FAILURES = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_LONGEST_DETAIL = 400
_IN_PLACE = (
    "No node had room for one pod more within rollout.surgeTimeout, so serving pods give their room up, one "
    "at a time; the next rollout tries again"
)
_NOWHERE = 'failed to mkdir ""'
"""containerd 1.6, seen; the API server and the kubelet take image volumes for granted from 1.35."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs for one model.

    wanted: replicas that the spec asks for, a canary among them. pods: all pods of the model.
    current: the pods that are launched as wanted now and are not being deleted.
    of_spec: the same, however they were launched: a relaunch leaves the spec as it is.
    returned: the last good revision is wanted now, since the spec's own failed.
    in_place: pods are replaced without one above the wanted number.
    advice: what will not go as well as it could, told while pods start.
    workers: of current pods that lead a group. group_ended: why a group of this revision had to begin anew.
    overdue: groups made no progress within the deadline; Deployments tell it themselves.
    shortage: what the GPUs that the spec selects lack, by estimate.
    known: what is known of such a launch and does not keep it from being made.
    """

    wanted: int
    deployments: tuple[Deployment, ...]
    pods: tuple[Pod, ...]
    current: tuple[Pod, ...]
    of_spec: tuple[Pod, ...]
    returned: bool = False
    in_place: bool = False
    advice: str | None = None
    workers: tuple[Pod, ...] = ()
    group_ended: Trouble | None = None
    overdue: bool = False
    shortage: Shortage | None = None
    known: tuple[str, ...] = ()

    @property
    def ready(self) -> int:
        """Pods that take traffic, of any revision."""
        return sum(pod.ready for pod in self.pods)

    @property
    def current_ready(self) -> int:
        """Pods launched as wanted now that take traffic."""
        return sum(pod.ready for pod in self.current)

    @property
    def spec_ready(self) -> int:
        """Pods of the present spec that take traffic."""
        return sum(pod.ready for pod in self.of_spec)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that needs a person."""

    reason: DegradedReason
    message: str


def judge(
    workload: Workload, now: datetime, *, above: Trouble | None = None, besides: Trouble | None = None
) -> tuple[Statement, ...]:
    """The conditions of a model as its pods are; Degraded is absent when nothing is wrong.

    above: a trouble that is told instead of the pods' own. besides: one that is told when they have none.
    """
    trouble = above or find_trouble(workload, now) or besides
    degraded = () if trouble is None else (_degraded(trouble),)
    return (_ready(workload), _progressing(workload), *degraded, *_known(workload))


def _known(workload: Workload) -> tuple[Statement, ...]:
    told = ". ".join(workload.known)
    return (Statement(ConditionStatus.TRUE, AdviceReason.LAUNCH_AFFECTED, told),) if told else ()


def downloading(workload: Workload, progress: str, trouble: Trouble | None) -> tuple[Statement, ...]:
    """The conditions of a model whose weights are on their way; its older pods, if any, still serve."""
    degraded = () if trouble is None else (_degraded(trouble),)
    return (
        _ready(workload),
        Statement(ConditionStatus.TRUE, ProgressingReason.DOWNLOADING, progress),
        *degraded,
    )


def blocked(trouble: Trouble) -> tuple[Statement, ...]:
    """The conditions of a model whose spec is not carried out; its older pods, if any, still serve."""
    see = f"{trouble.reason}: {trouble.message}"
    return (
        Statement(ConditionStatus.FALSE, ReadyReason.BLOCKED, see),
        Statement(ConditionStatus.FALSE, ProgressingReason.BLOCKED, see),
        _degraded(trouble),
    )


def find_trouble(workload: Workload, now: datetime) -> Trouble | None:
    """What the first check that complains says; the most specific kinds of trouble come first."""
    return next((trouble for check in _CHECKS if (trouble := check(workload, now))), None)


def cause(statements: Sequence[Statement]) -> str:
    """The one word that says best how a model is: why it is degraded, and where it is not, its readiness."""
    reasons = {statement.type: statement.reason for statement in statements}
    return reasons.get(ConditionType.DEGRADED, reasons[ConditionType.READY])


def _degraded(trouble: Trouble) -> Statement:
    return Statement(ConditionStatus.TRUE, trouble.reason, trouble.message)


def _ready(workload: Workload) -> Statement:
    ready, wanted = workload.spec_ready, workload.wanted
    if wanted == 0:
        return Statement(ConditionStatus.FALSE, ReadyReason.SCALED_TO_ZERO, "spec.replicas is 0")
    serving = f"{min(ready, wanted)} of {wanted} pods of the current spec serve"
    if ready >= wanted:
        return Statement(ConditionStatus.TRUE, ReadyReason.SERVING, serving)
    if workload.returned:
        serving = f"{serving}, {workload.current_ready} of the last good revision do"
        return Statement(ConditionStatus.FALSE, ReadyReason.ROLLED_BACK, serving)
    if ready > 0:
        return Statement(ConditionStatus.TRUE, ReadyReason.PARTIALLY_SERVING, serving)
    return Statement(ConditionStatus.FALSE, ReadyReason.ROLLING_OUT, serving)


def _progressing(workload: Workload) -> Statement:
    if _complete(workload):
        return Statement(ConditionStatus.FALSE, ProgressingReason.COMPLETE, "every wanted pod is ready")
    missing = _what_is_missing(workload)
    if _deadline_exceeded(workload):
        return Statement(ConditionStatus.FALSE, ProgressingReason.DEADLINE_EXCEEDED, missing)
    if workload.in_place:
        return Statement(ConditionStatus.TRUE, ProgressingReason.IN_PLACE, f"{missing}. {_IN_PLACE}")
    told = ". ".join((missing, *_foreseen(workload)))
    return Statement(ConditionStatus.TRUE, ProgressingReason.ROLLING_OUT, told)


def _foreseen(workload: Workload) -> Iterator[str]:
    """What the spec brings about that may go badly."""
    if workload.advice is not None:
        yield workload.advice
    if workload.shortage is not None and not workload.shortage.certain:
        yield workload.shortage.message


def _complete(workload: Workload) -> bool:
    return len(workload.pods) == len(workload.current) == workload.current_ready == workload.wanted


def _deadline_exceeded(workload: Workload) -> bool:
    return workload.overdue or any(gave_up(deployment) for deployment in workload.deployments)


def gave_up(deployment: Deployment) -> bool:
    """It made no progress within its deadline."""
    return any(
        condition.type == "Progressing" and condition.reason == "ProgressDeadlineExceeded"
        for condition in deployment.conditions
    )


def _will_not_fit(workload: Workload, _: datetime) -> Trouble | None:
    """A pod that serves proves every estimate wrong."""
    short = workload.shortage
    if short is None or not short.certain or workload.current_ready or not workload.wanted:
        return None
    return Trouble(DegradedReason.WILL_NOT_FIT, short.message)


def _not_within_the_deadline(workload: Workload, _: datetime) -> Trouble | None:
    if not _deadline_exceeded(workload):
        return None
    return Trouble(DegradedReason.DEADLINE_EXCEEDED, _what_is_missing(workload))


def _group_ended(workload: Workload, _: datetime) -> Trouble | None:
    return workload.group_ended if workload.current_ready < workload.wanted else None


def _pods_not_created(workload: Workload, _: datetime) -> Trouble | None:
    """What the API server said when it refused a pod that is still missing."""
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
    return Trouble(DegradedReason.PODS_NOT_CREATED, shortened(refusal, _LONGEST_DETAIL))


def _what_is_missing(workload: Workload) -> str:
    text = f"{workload.current_ready} of {workload.wanted} pods of the current revision are ready"
    leaving = len(workload.pods) - len(workload.current)
    if leaving:
        text += f", {leaving} older to go"
    waits = sorted({wait for pod in workload.current if not pod.ready for wait in _waits(pod)})
    return shortened(f"{text}; {', '.join(waits)}", _LONGEST_DETAIL) if waits else text


def _waits(pod: Pod) -> Sequence[str]:
    return [waiting.reason for waiting in pod.waiting if waiting.reason]


def _model_not_found(pod: Pod, _: datetime) -> str | None:
    engine = pod.container(CONTAINER)
    if engine is None or engine.last_end is None:
        return None
    failure = launch_failure(engine.last_end)
    if failure is not None:
        return failure[1] if failure[0] == DegradedReason.MODEL_NOT_FOUND else None
    path = missing_model(engine.last_end.message)
    return None if path is None else f"the engine found no model at {path}"


def _image_pull_failed(pod: Pod, _: datetime) -> str | None:
    return _waits_for(pod, _PULL_FAILURES)


def _runtime_too_old(pod: Pod, now: datetime) -> str | None:
    """Of a runtime that does not know image volumes, which takes them for a mount from nowhere."""
    if _NOWHERE not in (_container_not_created(pod, now) or ""):
        return None
    return "the node's container runtime cannot mount images; oci:// needs containerd 2.1 or CRI-O 1.33"


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
    return f"volumes or network not set up {(now - since).total_seconds():.0f} s after scheduling"


def _is_about_a_volume(message: str) -> bool:
    # The scheduler has one reason for all causes; only its text tells a missing claim from a full node.
    return "persistentvolumeclaim" in message.lower() or "volume" in message.lower()


def _engine_crashing(pod: Pod, _: datetime) -> str | None:
    engine = pod.container(CONTAINER)
    if engine is None or engine.last_end is None:
        return None
    if engine.last_end.exit_code == USAGE_ERROR:
        return f"does not take its flags, exit code {_last_words(engine)}"
    if engine.restart_count < CRASHES:
        return None
    return f"ended {engine.restart_count} times, last with exit code {_last_words(engine)}"


def end_of(pod: Pod, now: datetime) -> Trouble | None:
    """Why the engine of a pod began anew in it; None where it did not."""
    engine = pod.container(CONTAINER)
    if engine is None or engine.last_end is None or engine.restart_count == 0:
        return None
    missing = _model_not_found(pod, now)
    if missing is not None:
        return Trouble(DegradedReason.MODEL_NOT_FOUND, f"pod {pod.metadata.name}: {missing}")
    said = f"pod {pod.metadata.name}: ended, and its group with it, with exit code {_last_words(engine)}"
    return Trouble(DegradedReason.ENGINE_CRASHING, shortened(said, _LONGEST_DETAIL))


def _last_words(engine: ContainerStatus) -> str:
    end = engine.last_end
    if end is None:
        return "unknown"
    lines = [line for line in end.message.splitlines() if line.strip()]
    cause = f" ({end.reason})" if end.reason not in ("", "Error") else ""
    return f"{end.exit_code}{cause}: {lines[-1].strip()}" if lines else f"{end.exit_code}{cause}"


_Check = Callable[[Workload, datetime], Trouble | None]


def _in_a_pod(reason: DegradedReason, look: Callable[[Pod, datetime], str | None]) -> _Check:
    """Of the current pods and their workers, the first one that is not ready and shows this."""

    def check(workload: Workload, now: datetime) -> Trouble | None:
        for pod in (*workload.current, *workload.workers):
            message = None if pod.ready else look(pod, now)
            if message is not None:
                return Trouble(reason, shortened(f"pod {pod.metadata.name}: {message}", _LONGEST_DETAIL))
        return None

    return check


_BEFORE_IT_RUNS: Mapping[DegradedReason, Callable[[Pod, datetime], str | None]] = {
    DegradedReason.CLUSTER_TOO_OLD: _runtime_too_old,
    DegradedReason.IMAGE_PULL_FAILED: _image_pull_failed,
    DegradedReason.CONTAINER_NOT_CREATED: _container_not_created,
    DegradedReason.UNSCHEDULABLE: _unschedulable,
    DegradedReason.VOLUME_NOT_READY: _volume_not_ready,
}


def pod_trouble(pod: Pod, now: datetime) -> Trouble | None:
    """What keeps a pod from running, whatever it is for."""
    for reason, look in _BEFORE_IT_RUNS.items():
        message = look(pod, now)
        if message is not None:
            return Trouble(reason, shortened(f"pod {pod.metadata.name}: {message}", _LONGEST_DETAIL))
    return None


_CHECKS: Sequence[_Check] = (
    _will_not_fit,
    _in_a_pod(DegradedReason.MODEL_NOT_FOUND, _model_not_found),
    *(_in_a_pod(reason, look) for reason, look in _BEFORE_IT_RUNS.items()),
    _in_a_pod(DegradedReason.ENGINE_CRASHING, _engine_crashing),
    _group_ended,
    _pods_not_created,
    _not_within_the_deadline,
)
