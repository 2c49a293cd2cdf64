"""What stands between the pods of a target and their tuning, as conditions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from outrider import __version__
from outrider.api.conditions import ConditionStatus, ConditionUpdate
from outrider.api.reasons import AdviceReason, DegradedReason, ProgressingReason, ReadyReason
from outrider.api.text import shortened
from outrider.cluster.objects import Metadata, Pod
from outrider.controller.reconcile.readiness import DegradedCause, blocked
from outrider.controller.stored import MANAGED_LABEL
from outrider.controller.target_launch import TargetLaunch, launch_of
from outrider.engine.errors import EngineError, EngineProtocolError, EngineUnreachable, SignatureRefused
from outrider.engine.state import EngineState
from outrider.plan.names import MODEL_LABEL, NOT_INJECTED_ANNOTATION, PLUGIN_ANNOTATION

KEY_PATIENCE = timedelta(seconds=150)
"""The kubelet brings a new ConfigMap into a running pod within two minutes."""
MAX_TARGET_PODS = 500
"""Maximum pods of one target. Each is asked for its state."""
_SHOWN_PODS = 3
_MAX_DETAIL = 300

Answer = EngineState | EngineError
"""The answer of a pod's control API."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A SpeculativeModel with a target, and the UIDs of the pods that it selected last."""

    metadata: Metadata
    pods: frozenset[str]

    @property
    def age(self) -> tuple[str, str]:
        """Sorts the older one first, and of equally old ones by name."""
        made = self.metadata.creation_timestamp
        return ("" if made is None else made.isoformat(), self.metadata.name)

    def precedes(self, other: Claim) -> bool:
        """Whether this one keeps a pod that names neither of both."""
        return self.age < other.age


def keeper(pod: Pod, own: Claim, others: Sequence[Claim]) -> str | None:
    """Return the name of the SpeculativeModel that keeps a pod from `own`; None if `own` tunes it.

    A pod accepts one key, so the model that it names keeps it. Without such a name, the older one does.
    """
    labels = pod.metadata.labels
    launcher = labels.get(MODEL_LABEL) if labels.get(MANAGED_LABEL) == "outrider" else None
    if launcher is not None:
        return launcher
    rivals = [other for other in others if pod.metadata.uid in other.pods]
    named = pod.metadata.annotations.get(PLUGIN_ANNOTATION)
    if named == own.metadata.name:
        return None
    for rival in rivals:
        if rival.metadata.name == named or (named is None and rival.precedes(own)):
            return rival.metadata.name
    return None


@dataclass(frozen=True, slots=True)
class TargetSeen:
    """The pods of a target at one reconcile, without those that are being deleted.

    name: of the SpeculativeModel. where: the target in words. answers: by UID, of ready pods without a
    keeper. keepers: UID -> the SpeculativeModel that tunes the pod. left_out: number of pods beyond
    `MAX_TARGET_PODS`. key_made: creation of the ConfigMap with the key; None before it exists.
    """

    name: str
    where: str
    port: int
    pods: tuple[Pod, ...]
    answers: Mapping[str, Answer]
    keepers: Mapping[str, str]
    left_out: int
    key_made: datetime | None

    def answer(self, pod: Pod) -> Answer | None:
        """The answer of a pod; None if it was not asked."""
        return self.answers.get(pod.metadata.uid)


@dataclass(frozen=True, slots=True)
class TargetJudgement:
    """The outcome of a reconcile. launch, tuned: what the tuner gets."""

    statements: tuple[ConditionUpdate, ...]
    launch: TargetLaunch | None
    tuned: tuple[Pod, ...]


def judge_target(seen: TargetSeen, now: datetime) -> TargetJudgement:
    """The conditions of a target by the answers of its pods, and the pods to tune."""
    launches, untunable = _launches(seen)
    launch = _of_most(launches)
    tuned = tuple(pod for pod, own in launches if own == launch)
    if not seen.pods:
        return TargetJudgement(blocked(_no_pod(seen)), None, ())
    fresh = seen.key_made is None or now - seen.key_made < KEY_PATIENCE
    causes = [*_causes(seen, launches, launch, key_is_fresh=fresh), *untunable]
    statements = [_ready(seen), _progressing(seen, tuned, key_is_fresh=fresh)]
    if causes:
        text = shortened(" ".join(cause.message for cause in causes), 10 * _MAX_DETAIL)
        statements.append(ConditionUpdate(ConditionStatus.TRUE, causes[0].reason, text))
    statements += _other_plugins(seen, tuned)
    return TargetJudgement(tuple(statements), launch, tuned)


def _no_pod(seen: TargetSeen) -> DegradedCause:
    text = (
        f"Outrider tunes nothing, because no pod has the labels of {seen.where}. To change it, correct "
        "spec.target, or start the pods."
    )
    return DegradedCause(DegradedReason.NO_POD_MATCHES, text)


def _launches(seen: TargetSeen) -> tuple[list[tuple[Pod, TargetLaunch]], list[DegradedCause]]:
    """The launch of each pod that answered, and why Outrider cannot tune some of them."""
    found: list[tuple[Pod, TargetLaunch]] = []
    obstacles: dict[str, list[Pod]] = {}
    for pod in seen.pods:
        answer = seen.answer(pod)
        if not isinstance(answer, EngineState):
            continue
        try:
            found.append((pod, launch_of(answer)))
        except ValueError as error:
            obstacles.setdefault(str(error), []).append(pod)
    causes = [
        _cause(DegradedReason.NOT_TUNED, pods, f"{shortened(why, _MAX_DETAIL)}.")
        for why, pods in obstacles.items()
    ]
    if seen.left_out:
        text = (
            f"Outrider does not tune {seen.left_out} more pods of {seen.where}, because a target has at most "
            f"{MAX_TARGET_PODS}. To tune them, divide them among several SpeculativeModels."
        )
        causes.append(DegradedCause(DegradedReason.NOT_TUNED, text))
    return found, causes


def _of_most(launches: Sequence[tuple[Pod, TargetLaunch]]) -> TargetLaunch | None:
    """The launch of most pods; of equally many, the one that sorts first, so that the choice stays."""
    counts = Counter(launch for _, launch in launches)
    return min(counts, key=lambda launch: (-counts[launch], launch), default=None)


def _causes(
    seen: TargetSeen,
    launches: Sequence[tuple[Pod, TargetLaunch]],
    launch: TargetLaunch | None,
    *,
    key_is_fresh: bool,
) -> Iterator[DegradedCause]:
    for keeper_name in sorted(set(seen.keepers.values())):
        pods = [pod for pod in seen.pods if seen.keepers.get(pod.metadata.uid) == keeper_name]
        text = (
            f"SpeculativeModel {keeper_name} tunes them. To change it, correct the selector of one of both, "
            "or delete one."
        )
        yield _cause(DegradedReason.SELECTED_TWICE, pods, text)
    yield from _unanswered(seen, key_is_fresh=key_is_fresh)
    others = [(pod, own) for pod, own in launches if own != launch]
    if others:
        text = (
            f"they run {others[0][1]}, and most pods run {launch}. To change it, launch all pods alike, or "
            "create a SpeculativeModel for each launch."
        )
        yield _cause(DegradedReason.LAUNCHES_DIFFER, [pod for pod, _ in others], text)


def _unanswered(seen: TargetSeen, *, key_is_fresh: bool) -> Iterator[DegradedCause]:
    missing = _that(seen, lambda answer: isinstance(answer, EngineProtocolError))
    if missing:
        left = missing[0].metadata.annotations.get(NOT_INJECTED_ANNOTATION)
        why = "" if left is None else f". The injection policy left it out: {shortened(left, _MAX_DETAIL)}"
        text = (
            f"{_detail(seen, missing[0])}{why}. To change it, add the plugin to their manifest, as "
            "docs/guide/running-pods.md shows, and roll them out."
        )
        yield _cause(DegradedReason.PLUGIN_MISSING, missing, text)
    refusing = [] if key_is_fresh else _that(seen, lambda answer: isinstance(answer, SignatureRefused))
    if refusing:
        named = refusing[0].metadata.annotations.get(PLUGIN_ANNOTATION)
        whose = "" if named in (None, seen.name) else f", and its annotation names SpeculativeModel {named}"
        text = (
            f"the first refuses the key of this SpeculativeModel{whose} ({_detail(seen, refusing[0])}). To "
            f"change it, mount the ConfigMap {seen.name}-schedule in the pods."
        )
        yield _cause(DegradedReason.KEY_MISMATCH, refusing, text)
    silent = _that(seen, lambda answer: isinstance(answer, EngineUnreachable))
    if silent:
        text = (
            f"no engine answers at port {seen.port} ({_detail(seen, silent[0])}). To change it, set "
            "spec.target.port, or admit the operator in their NetworkPolicy."
        )
        yield _cause(DegradedReason.TARGET_UNREACHABLE, silent, text)
    known = (EngineProtocolError, SignatureRefused, EngineUnreachable)
    other = _that(seen, lambda answer: isinstance(answer, EngineError) and not isinstance(answer, known))
    if other:
        yield _cause(DegradedReason.NOT_TUNED, other, f"{_detail(seen, other[0])}.")


def _that(seen: TargetSeen, holds: Callable[[Answer | None], bool]) -> list[Pod]:
    return [pod for pod in seen.pods if holds(seen.answer(pod))]


def _detail(seen: TargetSeen, pod: Pod) -> str:
    return shortened(str(seen.answer(pod)), _MAX_DETAIL).rstrip(".")


def _cause(reason: DegradedReason, pods: Sequence[Pod], because: str) -> DegradedCause:
    return DegradedCause(reason, f"Outrider does not tune {_names(pods)}, because {because}")


def _names(pods: Sequence[Pod]) -> str:
    shown = ", ".join(pod.metadata.name for pod in pods[:_SHOWN_PODS])
    more = len(pods) - _SHOWN_PODS
    return f"pods {shown} and {more} more" if more > 0 else f"{'pod' if len(pods) == 1 else 'pods'} {shown}"


def _ready(seen: TargetSeen) -> ConditionUpdate:
    """Whether the target serves; Outrider does not start its pods."""
    ready, total = sum(pod.ready for pod in seen.pods), len(seen.pods)
    serving = f"{ready}/{total} pods of {seen.where} serve."
    if ready == 0:
        return ConditionUpdate(ConditionStatus.FALSE, ReadyReason.ROLLING_OUT, serving)
    reason = ReadyReason.SERVING if ready == total else ReadyReason.PARTIALLY_SERVING
    return ConditionUpdate(ConditionStatus.TRUE, reason, serving)


def _progressing(seen: TargetSeen, tuned: Sequence[Pod], *, key_is_fresh: bool) -> ConditionUpdate:
    waiting = _that(seen, lambda answer: isinstance(answer, SignatureRefused)) if key_is_fresh else []
    if waiting:
        text = f"Outrider waits until {_names(waiting)} read the new key, within two minutes."
        return ConditionUpdate(ConditionStatus.TRUE, ProgressingReason.WAITING_FOR_KEY, text)
    if seen.pods and len(tuned) == len(seen.pods):
        return ConditionUpdate(
            ConditionStatus.FALSE, ProgressingReason.COMPLETE, f"Outrider tunes every pod of {seen.where}."
        )
    starting = sum(not pod.ready for pod in seen.pods)
    text = f"Outrider can tune {len(tuned)}/{len(seen.pods)} pods of {seen.where}; {starting} are not ready."
    if starting:
        return ConditionUpdate(ConditionStatus.TRUE, ProgressingReason.ROLLING_OUT, text)
    return ConditionUpdate(ConditionStatus.FALSE, ProgressingReason.BLOCKED, text)


def _other_plugins(seen: TargetSeen, tuned: Sequence[Pod]) -> Iterator[ConditionUpdate]:
    """A note about tuned pods whose plugin has another version than the operator."""
    versions: dict[str, list[Pod]] = {}
    for pod in tuned:
        answer = seen.answer(pod)
        version = answer.plugin_version if isinstance(answer, EngineState) else None
        if version is not None and version != __version__:
            versions.setdefault(version, []).append(pod)
    if not versions:
        return
    words = (f"{_names(pods)}: {version}" for version, pods in sorted(versions.items()))
    text = (
        f"Outrider {__version__} tunes pods with a plugin of another version ({'; '.join(words)}). To change "
        "it, bring the operator's version into their manifest with the next rollout."
    )
    yield ConditionUpdate(ConditionStatus.TRUE, AdviceReason.PLUGIN_DIFFERS, text)
