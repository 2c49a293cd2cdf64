"""``spec.speculation.tuning``: what the tuner may change."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import Latency, RestartInterval
from outrider_protocol.methods import K0


class TuningMode(StrEnum):
    """The mode of the tuner."""

    OFF = "Off"
    OBSERVE = "Observe"
    AUTO = "Auto"


class Actuation(StrEnum):
    """The way in which a new schedule reaches the engines."""

    LIVE = "Live"
    ROLLOUT = "Rollout"


class StructuralOff(StrEnum):
    """The action on a drafter that does not pay for long."""

    NEVER = "Never"
    RECOMMEND = "Recommend"
    ALLOW = "Allow"


class Canary(StrEnum):
    """Whether one replica may run with another launch for some minutes, to be measured."""

    NEVER = "Never"
    ALLOW = "Allow"


class Sweep(StrEnum):
    """Whether engines measure their step times before they serve."""

    AUTO = "Auto"
    NEVER = "Never"


class Objective(StrEnum):
    """The quantity that the tuner maximizes."""

    GOODPUT = "Goodput"
    LATENCY = "Latency"


class LatencyTarget(ApiModel):
    """A limit that a percentile of a latency must not exceed."""

    percentile: Annotated[int, Field(ge=50, le=99)] = 90
    """Percentile of all requests that the limit applies to. Default: 90, which is nine of ten."""
    limit: Latency
    """The limit, from 1ms to 10m. Example: 50ms."""


class Slo(ApiModel):
    """Latency targets. The condition SLOKept and status.slo report whether the model keeps them."""

    inter_token_latency: LatencyTarget | None = None
    """Target of the pause between two outputs of a request, which is the time of an engine step. The tuner
    uses no K that breaks it. If every K does, it uses the K with the shortest steps."""
    time_to_first_token: LatencyTarget | None = None
    """Target of the time to the first token of a request. Outrider reports it and uses it for
    outrider_required_replicas. It does not change K, because queues and prompts decide this time."""

    @property
    def empty(self) -> bool:
        """True without any target."""
        return self.inter_token_latency is None and self.time_to_first_token is None


SLO_HAS_A_TARGET = "!has(self.slo) || has(self.slo.interTokenLatency) || has(self.slo.timeToFirstToken)"
"""The rule of whatever has latency targets."""


class Tuning(ApiModel):
    """Tuning of the schedule by the load. A change of `actuation`, `k0` or `sweep` restarts pods. The tuner
    itself restarts pods only with `actuation: Rollout`, `structuralOff: Allow` or `canary: Allow`."""

    mode: TuningMode = TuningMode.AUTO
    """Off keeps the static schedule. Observe reports decisions without carrying them out. Auto (default)
    tunes."""
    actuation: Actuation = Actuation.LIVE
    """The way in which a new schedule reaches the engines. Live (default): a push into the running engines.
    Rollout: a rolling restart per change, for stock images without Outrider's plugin. With mode Off, engines
    keep the static schedule."""
    objective: Objective = Objective.GOODPUT
    """The quantity to maximize. Goodput (default): output tokens per second of engine time. Latency: goodput
    and short pauses between outputs. A K with pauses twice as long must bring 19 % more goodput."""
    slo: Slo | None = None
    """Latency targets. The tuner prefers them to the objective."""
    k0: K0 = K0.AUTO
    """The work of the drafter while K is 0. Sync: it runs in every step, as in vLLM. Skip: decode steps run
    without it, and it reads the missed tokens before it drafts again. Skip does not work with n-gram, suffix
    and parallel drafts. It does not work on the V2 runner before vLLM 0.32, nor on V1 with EAGLE and MTP
    under asynchronous scheduling. Auto (default): Skip for launches that were tested on a real engine, else
    Sync. status.speculation.idleDrafter has the result. A change restarts pods."""
    structural_off: StructuralOff = StructuralOff.NEVER
    """Whether Outrider relaunches a model without its drafter if drafting loses. Never (default): no.
    Recommend: the condition LaunchOptimal reports it. Allow: it relaunches, and returns when drafting would
    pay."""
    canary: Canary = Canary.NEVER
    """Whether one of two or more replicas may run with another launch for some minutes. Allow: it runs
    without speculation, so that the speedup is measured against a launch without a drafter. It also tries a
    new `drafter` first, and the others get the drafter unless it is slower. Default: Never."""
    relaunch_interval: RestartInterval = "1h"
    """Minimum time between two relaunches by the tuner. A return to the launch before is never delayed. At
    least 1m. Default: 1h."""
    sweep: Sweep = Sweep.AUTO
    """Whether an engine measures a step-time profile before it serves. Auto (default): for at most 20 s, and
    at most 10 % of its start. Never: it does not. A change restarts the pods."""

    @rule(
        "self.mode != 'Off' || self.structuralOff == 'Never'",
        "spec.speculation.tuning.structuralOff: mode Off measures nothing; use Never, or mode Observe",
        field=".structuralOff",
    )
    def _structure_has_a_tuner(self) -> bool:
        return self.mode is not TuningMode.OFF or self.structural_off is StructuralOff.NEVER

    @rule(
        "self.mode != 'Off' || self.canary == 'Never'",
        "spec.speculation.tuning.canary: mode Off measures nothing; use Never, or mode Auto",
        field=".canary",
    )
    def _canary_has_a_tuner(self) -> bool:
        return self.mode is not TuningMode.OFF or self.canary is Canary.NEVER

    @rule(
        "self.actuation != 'Rollout' || self.canary == 'Never'",
        "spec.speculation.tuning.canary: engines without Outrider's plugin cannot be compared with a canary; "
        "use Never, or actuation Live",
        field=".canary",
    )
    def _canary_has_the_plugin(self) -> bool:
        return self.actuation is not Actuation.ROLLOUT or self.canary is Canary.NEVER

    @rule(
        "self.mode != 'Off' || self.objective == 'Goodput'",
        "spec.speculation.tuning.objective: mode Off chooses no K; leave objective out, or use mode Auto",
        field=".objective",
    )
    def _objective_has_a_tuner(self) -> bool:
        return self.mode is not TuningMode.OFF or self.objective is Objective.GOODPUT

    @rule(
        "self.mode != 'Off' || !has(self.slo)",
        "spec.speculation.tuning.slo: mode Off measures nothing; leave slo out, or use mode Observe or Auto",
        field=".slo",
    )
    def _slo_has_a_tuner(self) -> bool:
        return self.mode is not TuningMode.OFF or self.slo is None

    @rule(
        SLO_HAS_A_TARGET,
        "spec.speculation.tuning.slo has no target; add interTokenLatency or timeToFirstToken, or leave slo "
        "out",
        field=".slo",
    )
    def _slo_has_a_target(self) -> bool:
        return self.slo is None or not self.slo.empty
