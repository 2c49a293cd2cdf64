"""``spec.speculation.tuning``: what the tuner may change."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import Duration, RestartInterval
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
    """Whether one replica may run without speculation for some minutes, as the reference."""

    NEVER = "Never"
    ALLOW = "Allow"


class Sweep(StrEnum):
    """Whether engines measure their step times before they serve."""

    AUTO = "Auto"
    NEVER = "Never"


class Slo(ApiModel):
    """Latency targets. Not available yet: leave `slo` out."""

    inter_token_latency: Duration | None = None
    """Upper bound of the p90 time between two tokens of a request. Example: 50ms."""
    time_to_first_token: Duration | None = None
    """Upper bound of the p90 time to the first token of a request. Example: 500ms."""


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
    objective: Literal["Goodput", "Latency"] = "Goodput"
    """The quantity to maximize. Goodput (default): output tokens per second of engine time."""
    slo: Slo | None = None
    """Latency targets of a schedule. Not available yet."""
    k0: K0 = K0.AUTO
    """The work of the drafter while K is 0. Sync: it runs in every step, as in vLLM. Skip: decode steps run
    without it, and it reads the missed tokens before it drafts again. Skip does not work with n-gram, suffix
    and parallel drafts. It does not work on the V2 runner before vLLM 0.32, nor on V1 with EAGLE and MTP
    under asynchronous scheduling. Auto (default): Skip for launches that were tested on a real engine, else
    Sync. status.speculation.idleDrafter has the result. A change restarts pods."""
    structural_off: StructuralOff = StructuralOff.NEVER
    """Whether Outrider relaunches a model without its drafter if K is 0 for long. Never (default): no.
    Recommend: the condition LaunchOptimal reports it. Allow: it relaunches, and returns when drafting would
    pay."""
    canary: Canary = Canary.NEVER
    """Whether one of two or more replicas may run without speculation for some minutes. The speedup is then
    measured against a launch without a drafter. Default: Never."""
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
        "self.objective == 'Goodput'",
        "spec.speculation.tuning.objective: {objective} is not available yet; use Goodput",
        field=".objective",
    )
    def _objective_is_goodput(self) -> bool:
        return self.objective == "Goodput"

    @rule(
        "!has(self.slo)",
        "spec.speculation.tuning.slo is not available yet; leave it out",
        field=".slo",
    )
    def _has_no_slo(self) -> bool:
        return self.slo is None
