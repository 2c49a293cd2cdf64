"""What becomes of a rollout that does not end, and of one that brings a new drafter.

The last good revision returns, pods give up their room, or a canary tries the drafter first.

What has to be remembered stands in an annotation of the Deployment. One apply writes it together with the
pods that it is about, so no crash can lose one of two writes. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, TypeAdapter

from outrider.api.json_object import Json, as_object
from outrider.api.launch import DrafterVerdict
from outrider.api.reasons import DegradedReason
from outrider.api.resource import GROUP
from outrider.api.rollout import OnFailure
from outrider.api.spec import Spec
from outrider.foreign import read_as
from outrider.foreign.readers import ROLLOUT_MEMORY
from outrider.plan.children import Manifest, table_data
from outrider.plan.planner import Plan
from outrider_protocol.schedule import Schedule

ANNOTATION = f"{GROUP}/rollout"
"""On the Deployment: the text of a `Memory`."""

_HASH_LABEL = "pod-template-hash"
"""Put onto a template by the Deployment that made a ReplicaSet of it."""
_ONLY_OF_THE_TUNER = {"mode", "objective", "slo", "structural_off", "canary", "relaunch_interval"}
"""Fields of spec.speculation.tuning that never reach pods."""
_IN_PLACE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Good(_Part):
    """The last revision of which all pods were available at once."""

    revision: str
    spec: str = ""
    """Revision of its spec under its own launch; "" where it is not known."""
    table: str = ""
    """The static schedule that its engines began with, such as ``8:3,*:0``; "" where it is not known."""
    besides: str = ""
    """Hash of its spec without the drafter; "" where it is not known."""


class Failed(_Part):
    """A spec that was taken back."""

    spec: str
    """Its revision under its own launch."""
    reason: str
    message: str
    tried: bool = False
    """A canary alone tried it, and differs from the replicas in the drafter."""


class Trial(_Part):
    """A spec with a new drafter, which a canary tries."""

    spec: str
    """Its revision under its own launch."""
    promoted: bool = False
    """The replicas get it."""


class Memory(_Part):
    """What a rollout has to know of what was before it."""

    good: Good | None = None
    failed: Failed | None = None
    in_place: bool = False
    """No node has room for a pod above the wanted number. Holds until the rollout is complete."""
    trial: Trial | None = None
    """The trial of a drafter, until all replicas have it or keep the one before."""

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Memory:
        """What a Deployment bears; nothing where that cannot be read."""
        try:
            return read_as(ROLLOUT_MEMORY, annotations.get(ANNOTATION, "{}"), TypeAdapter(cls))
        except ValueError:
            return cls()

    def __str__(self) -> str:
        """The inverse of `of`; "" where there is nothing to remember."""
        return "" if self == Memory() else self.model_dump_json(exclude_defaults=True)

    @property
    def returned(self) -> Good | None:
        """The revision that serves in place of the present spec's; None where that one is carried out."""
        return self.good if self.failed is not None else None

    @property
    def trying(self) -> bool:
        """A canary has the drafter of the present spec, and the replicas have the one before."""
        return self.trial is not None and not self.trial.promoted

    @property
    def kept(self) -> Good | None:
        """The revision of the replicas where it is not the present spec's: `returned`, or during a trial."""
        return self.good if self.trying else self.returned

    @property
    def before_trial(self) -> str:
        """Revision of the pods with the drafter before, while others may have the spec's; "" otherwise."""
        tried = self.trial is not None or (self.failed is not None and self.failed.tried)
        return self.good.revision if tried and self.good is not None else ""

    @property
    def returned_table(self) -> Schedule | None:
        """The static schedule of `returned`, where it is known."""
        try:
            return Schedule.parse(self.returned.table) if self.returned is not None else None
        except ValueError:
            return None

    def without_return(self) -> Memory:
        """Where the good revision is not to be found any more."""
        return Memory(in_place=self.in_place)


def besides_drafter(spec: Spec) -> str:
    """Hash of a spec without its drafter, and without what never reaches pods."""
    text = spec.model_dump_json(
        exclude={
            "replicas": True,
            "rollout": True,
            "speculation": {"drafter": True, "tuning": _ONLY_OF_THE_TUNER},
        }
    )
    return hashlib.sha256(text.encode()).hexdigest()[:10]


@dataclass(frozen=True, slots=True)
class Target:
    """What the spec asks for."""

    revision: str
    """Revision of its pods, launched as the tuner ordered."""
    spec: str
    """The same, launched as the spec alone says: no order of the tuner changes it."""
    table: str
    """Its static schedule, such as ``8:3,*:0``."""
    on_failure: OnFailure
    besides: str = ""
    """Hash of the spec without the drafter."""
    tries_drafters: bool = False
    """The spec has a canary try a new drafter before the replicas get it."""
    keeps_tried: bool = False
    """A drafter that failed its trial is not given to the replicas."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The Deployment as it stands."""

    revision: str
    """Revision of its pod template."""
    complete: bool
    """It wants a pod or more, and all of them are of this revision and available."""
    stuck: tuple[str, str] | None = None
    """Reason and message of a rollout that made no progress in time; None otherwise."""
    no_room: bool = False
    """A pod above the wanted number has found no node for too long, and a serving one can give way."""
    table: str = ""
    """The static schedule that its engines began with; "" where it cannot be read."""
    canary_stuck: tuple[str, str] | None = None
    """The same as `stuck` of the canary with the spec's drafter."""


def followed(memory: Memory, target: Target, seen: Seen, verdict: DrafterVerdict | None = None) -> Memory:
    """What is to be remembered from now on.

    Equal arguments give equal answers, and what it answers changes nothing when it is asked again. A relaunch
    that the tuner ordered is of the spec that is good already; taking it back is the tuner's business.

    verdict: the tuner's on a drafter, of this spec or another one.
    """
    failed = None if memory.failed is None or _lifted(memory.failed, target) else memory.failed
    trial = None if failed is not None else _trial(memory, target, seen)
    if trial is not None and not trial.promoted:
        own = verdict if verdict is not None and verdict.spec == target.spec else None
        failed = _failed_trial(target, seen, own)
        promoted = own is not None and own.promoted
        trial = Trial(spec=target.spec, promoted=promoted) if failed is None else None
    if seen.complete:
        came = seen.revision == target.revision
        good = _good(memory, target, seen)
        return Memory(good=good, failed=None if came else failed, trial=None if came else trial)
    if failed is None and seen.stuck is not None and _can_return(memory, target, seen):
        reason, message = seen.stuck
        failed = Failed(spec=target.spec, reason=reason, message=message)
    return Memory(
        good=memory.good,
        failed=failed,
        in_place=memory.in_place or seen.no_room,
        trial=trial if failed is None else None,
    )


def _lifted(failed: Failed, target: Target) -> bool:
    """Whether a spec is tried again."""
    if failed.spec != target.spec or (failed.tried and not target.keeps_tried):
        return True
    return target.on_failure is OnFailure.HOLD and failed.reason != DegradedReason.DRAFTER_SLOWER


def _trial(memory: Memory, target: Target, seen: Seen) -> Trial | None:
    """The trial of the present spec: the one that runs, or a new one for a spec with another drafter only."""
    known, good = memory.trial, memory.good
    if known is not None and known.spec == target.spec and (known.promoted or target.tries_drafters):
        return known
    if good is None or not target.tries_drafters or not good.besides or good.besides != target.besides:
        return None
    # Neither spec has another launch by order of the tuner.
    own = target.revision == target.spec and good.revision == good.spec
    new = own and seen.revision == good.revision != target.revision
    return Trial(spec=target.spec) if new else None


def _failed_trial(target: Target, seen: Seen, verdict: DrafterVerdict | None) -> Failed | None:
    if verdict is not None and not verdict.promoted:
        reason, message = str(DegradedReason.DRAFTER_SLOWER), verdict.why
    elif seen.canary_stuck is not None and target.on_failure is OnFailure.ROLL_BACK:
        reason, message = seen.canary_stuck
    else:
        return None
    return Failed(spec=target.spec, reason=reason, message=message, tried=True)


def _good(memory: Memory, target: Target, seen: Seen) -> Good:
    if seen.revision == target.revision:
        return Good(revision=seen.revision, spec=target.spec, table=target.table, besides=target.besides)
    if memory.good is not None and memory.good.revision == seen.revision:
        return memory.good
    return Good(revision=seen.revision, table=seen.table)


def _can_return(memory: Memory, target: Target, seen: Seen) -> bool:
    good = memory.good
    return (
        target.on_failure is OnFailure.ROLL_BACK
        and seen.revision == target.revision
        and good is not None
        and good.revision != target.revision
        and good.spec != target.spec
    )


def returning(plan: Plan, good: Good, template: Json, table: Schedule | None) -> Plan:
    """The plan with the pods of the good revision.

    template: as the ReplicaSet of that revision has it.
    table: with which its engines begin; None: that of the plan.
    """
    metadata = as_object(template["metadata"])
    labels = {name: text for name, text in as_object(metadata["labels"]).items() if name != _HASH_LABEL}
    known: Json = {"labels": labels}
    if metadata.get("annotations"):
        known["annotations"] = metadata["annotations"]
    main = plan.child("Deployment")

    def changed(child: Manifest) -> Manifest:
        if child is main:
            return {
                **child,
                "spec": {**as_object(child["spec"]), "template": {**template, "metadata": known}},
            }
        if child["kind"] == "ConfigMap" and table is not None:
            return {**child, "data": {**as_object(child["data"]), **table_data(table)}}
        return child

    return replace(plan, children=tuple(map(changed, plan.children)), revision=good.revision)


def without_canary(plan: Plan) -> Plan:
    """The plan with its replicas alone."""
    main = plan.child("Deployment")
    kept = tuple(child for child in plan.children if child is main or child["kind"] != "Deployment")
    return replace(plan, children=kept, canary_revision=None)


def remembering(plan: Plan, memory: Memory) -> Plan:
    """The plan with the memory, and with the way of replacing pods that it asks for."""
    main = plan.child("Deployment")

    def changed(child: Manifest) -> Manifest:
        if child is not main:
            return child
        if str(memory):
            annotations = {ANNOTATION: str(memory)}
            child = {**child, "metadata": {**as_object(child["metadata"]), "annotations": annotations}}
        return (
            {**child, "spec": {**as_object(child["spec"]), "strategy": _IN_PLACE}}
            if memory.in_place
            else child
        )

    return replace(plan, children=tuple(map(changed, plan.children)))
