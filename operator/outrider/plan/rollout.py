"""What becomes of a rollout that does not end: the last good revision returns, or pods give up their room.

What has to be remembered stands in an annotation of the Deployment. One apply writes it together with the
pods that it is about, so no crash can lose one of two writes. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, TypeAdapter

from outrider.api.json_object import Json, as_object
from outrider.api.resource import GROUP
from outrider.api.rollout import OnFailure
from outrider.foreign import read_as
from outrider.foreign.readers import ROLLOUT_MEMORY
from outrider.plan.children import Manifest, table_data
from outrider.plan.planner import Plan
from outrider_protocol.schedule import Schedule

ANNOTATION = f"{GROUP}/rollout"
"""On the Deployment: the text of a `Memory`."""

_HASH_LABEL = "pod-template-hash"
"""Put onto a template by the Deployment that made a ReplicaSet of it."""
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


class Failed(_Part):
    """A spec that was taken back."""

    spec: str
    """Its revision under its own launch."""
    reason: str
    message: str


class Memory(_Part):
    """What a rollout has to know of what was before it."""

    good: Good | None = None
    failed: Failed | None = None
    in_place: bool = False
    """No node has room for a pod above the wanted number. Holds until the rollout is complete."""

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
    def returned_table(self) -> Schedule | None:
        """The static schedule of `returned`, where it is known."""
        try:
            return Schedule.parse(self.returned.table) if self.returned is not None else None
        except ValueError:
            return None

    def without_return(self) -> Memory:
        """Where the good revision is not to be found any more."""
        return Memory(in_place=self.in_place)


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


def followed(memory: Memory, target: Target, seen: Seen) -> Memory:
    """What is to be remembered from now on.

    Equal arguments give equal answers, and what it answers changes nothing when it is asked again. A relaunch
    that the tuner ordered is of the spec that is good already; taking it back is the tuner's business.
    """
    failed = memory.failed
    if failed is not None and (failed.spec != target.spec or target.on_failure is OnFailure.HOLD):
        failed = None
    if seen.complete:
        came = seen.revision == target.revision
        return Memory(good=_good(memory, target, seen), failed=None if came else failed)
    if failed is None and seen.stuck is not None and _can_return(memory, target, seen):
        reason, message = seen.stuck
        failed = Failed(spec=target.spec, reason=reason, message=message)
    return Memory(good=memory.good, failed=failed, in_place=memory.in_place or seen.no_room)


def _good(memory: Memory, target: Target, seen: Seen) -> Good:
    if seen.revision == target.revision:
        return Good(revision=seen.revision, spec=target.spec, table=target.table)
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
    """The plan with the pods of the good revision, and without a canary.

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

    kept = [child for child in plan.children if child is main or child["kind"] != "Deployment"]
    return replace(plan, children=tuple(map(changed, kept)), revision=good.revision, canary_revision=None)


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
