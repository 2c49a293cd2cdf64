"""How the engines of one Deployment are started: with or without drafter, with Outrider's plugin or stock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from outrider.api.launch import Launch
from outrider.api.spec import Spec
from outrider.api.speculation import Speculation
from outrider.api.tuning import Actuation, Tuning, TuningMode
from outrider_protocol.methods import Method
from outrider_protocol.schedule import Schedule

SCHEDULE_FOLDER = "/etc/outrider/schedule"
"""Where a pod mounts the ConfigMap with the static schedule and the operator's key."""
SCHEDULE_FILE = "schedule.json"
PUBLIC_KEY_FILE = "control-key.pub"
MASTER_PORTS = (29_501, 29_502)
"""Where the leader of a group waits for its workers; the second where engines serve on the first."""

_OFF = Tuning(mode=TuningMode.OFF)


class Role(StrEnum):
    """What a pod is for."""

    REPLICA = "replica"
    CANARY = "canary"
    """A replica of another launch, to be measured against."""
    WORKER = "worker"
    """One of several nodes that compute a replica. It answers no requests."""


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """One way to start an engine, worked out."""

    spec: Spec
    """What the engine is started from; without drafter it is that of method none."""
    stock: bool
    """The engine is started without Outrider's plugin."""
    table: Schedule | None
    """The schedule of a stock engine that drafts, fixed until the next start."""
    launch: Launch
    """What the pod says about its launch; nothing where it is the launch of the spec."""
    role: Role = Role.REPLICA


def engine_launch(spec: Spec, launch: Launch, role: Role = Role.REPLICA) -> EngineLaunch:
    """``launch`` as it is carried out under ``spec``.

    A pod of a stock engine with a schedule always has it: such an engine does not answer the control API.
    """
    stock = spec.speculation.tuning.actuation is Actuation.ROLLOUT
    if spec.speculation.compares_verification:
        spec = spec.verifying(adaptive=launch.adaptive)
    if not launch.drafter:
        return EngineLaunch(_without_drafter(spec), stock, None, launch, role)
    if not stock or not spec.live:
        return EngineLaunch(spec, stock, None, Launch(adaptive=launch.adaptive), role)
    table = launch.schedule or spec.static_schedule()
    if spec.one_k:
        return EngineLaunch(_of_one_k(spec, table.k_at(1)), stock, None, Launch(schedule=table), role)
    return EngineLaunch(spec, stock, table, Launch(schedule=table), role)


def _without_drafter(spec: Spec) -> Spec:
    plain = Speculation(method=Method.NONE, tuning=_OFF)
    return spec.model_copy(update={"speculation": plain})


def _of_one_k(spec: Spec, k: int) -> Spec:
    """vLLM knows no launch of a drafter with K=0."""
    if k == 0:
        return _without_drafter(spec)
    kept = {"num_speculative_tokens": k, "candidates": None, "schedule": None, "tuning": _OFF}
    return spec.model_copy(update={"speculation": spec.speculation.model_copy(update=kept)})
