"""The pods of the present spec, with whichever launch configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from outrider.api.launch import ANNOTATION, Launch
from outrider.api.resource import SpeculativeModel
from outrider.cluster.objects import Pod
from outrider.controller.stored import Key
from outrider.plan import Rendered, Role
from outrider.plan.names import CANARY, REVISION_LABEL, ROLE_LABEL

MAX_LAUNCHES = 16
"""Maximum number of launch configurations that are planned for one spec.

The tuner orders a few, but anyone may write the annotation.
"""


_Launched = tuple[str, Role]
"""A launch configuration in one line, and the role of the pod."""


@dataclass(slots=True)
class _Planned:
    """Revisions of one state of a model by launch; None if a launch has none."""

    model: SpeculativeModel
    revisions: dict[_Launched, str | None] = field(default_factory=dict)


class Revisions:
    """Renders each launch configuration of a spec once, for all pods and reconciles.

    It keeps revisions and no templates, which are large. Pods of launches beyond `MAX_LAUNCHES` count as pods
    of another spec.
    """

    def __init__(self) -> None:
        self._planned: dict[Key, _Planned] = {}

    def of_spec(self, key: Key, rendered: Rendered, pods: Sequence[Pod]) -> tuple[Pod, ...]:
        """The pods that the spec produces with the launch configuration of each."""
        planned, model = self._planned.get(key), rendered.model
        if planned is None or planned.model is not model:
            planned = self._planned[key] = _Planned(model)
        launches = {pod.metadata.name: _launch(pod) for pod in pods}
        self._plan_new(planned, rendered, dict.fromkeys(launches.values()))
        expected = {name: planned.revisions.get(launch) for name, launch in launches.items()}
        return tuple(
            pod
            for pod in pods
            if (wanted := expected[pod.metadata.name]) is not None and revision_label(pod) == wanted
        )

    def forget(self, key: Key) -> None:
        """Drop a deleted model."""
        self._planned.pop(key, None)

    def _plan_new(self, planned: _Planned, rendered: Rendered, launches: Iterable[_Launched]) -> None:
        new = [launch for launch in launches if launch not in planned.revisions]
        if new and len(planned.revisions) + len(new) > MAX_LAUNCHES:
            planned.revisions = {each: planned.revisions[each] for each in launches if each not in new}
        for launch in new[: MAX_LAUNCHES - len(planned.revisions)]:
            planned.revisions[launch] = _revision(rendered, *launch)


def _revision(rendered: Rendered, text: str, as_role: Role) -> str | None:
    try:
        return rendered.revision(Launch.parse(text), as_role)
    except ValueError:
        return None


def launch_of(pod: Pod) -> Launch:
    """The launch of a pod; the spec's own if its annotation cannot be parsed."""
    try:
        return Launch.of_pod(pod.metadata.annotations)
    except ValueError:
        return Launch()


def _launch(pod: Pod) -> _Launched:
    return pod.metadata.annotations.get(ANNOTATION, ""), role(pod)


def revision_label(pod: Pod) -> str | None:
    """The revision of a pod, by its label."""
    return pod.metadata.labels.get(REVISION_LABEL)


def role(pod: Pod) -> Role:
    """Whether a pod is a replica or the canary."""
    return Role.CANARY if pod.metadata.labels.get(ROLE_LABEL) == CANARY else Role.REPLICA
