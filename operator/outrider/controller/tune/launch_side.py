"""The tuner of the pods that were launched alike: their schedule, what was learnt of them, their profile.

Engines with fixed and with adaptive verification, or with a new drafter and the one before, have other step
times and other best K. So each side learns and is pushed apart, while both serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.tune.cost_models import CostModels, Teaching
from outrider.controller.tune.engine_info import EngineInfo
from outrider.controller.tune.engine_tables import PushedTables
from outrider.controller.tune.permission import Permission
from outrider.controller.tune.snapshot import usable
from outrider.controller.tune.step_time_profiles import LaunchProfile, newest
from outrider.tuning.decision import BinEstimates, Decision, LatencyOutlook
from outrider.tuning.estimate.contrast import Contrast
from outrider.tuning.state import TunerState


@dataclass(slots=True)
class LaunchSide:
    """Not for concurrent use. state: None before its first tick."""

    pushed: PushedTables
    state: TunerState | None = None
    estimates: Mapping[str, BinEstimates] = field(default_factory=dict)
    profile: LaunchProfile | None = None
    cost_models: CostModels = field(default_factory=CostModels)
    latency: LatencyOutlook | None = None  # of the last tick that had an outlook

    def decided(self, decision: Decision) -> Decision:
        """Keep what a decision learnt."""
        self.state = decision.state
        if decision.outlook is not None:
            self.latency = decision.outlook.latency
        self.estimates = decision.estimates or self.estimates
        return decision

    def forget(self) -> None:
        """Drop what was learnt."""
        self.state, self.estimates = None, {}

    def teaching(
        self,
        model: TunedModel,
        rule: Permission,
        decision: Decision | None,
        pods: Sequence[EnginePod],
        infos: Iterable[EngineInfo],
    ) -> Teaching:
        """The cost model that these pods get."""
        return self.cost_models.of_tick(model, rule, decision, pods, infos_of(pods, infos))

    def follow_profiles(self, pods: Sequence[EnginePod], infos: Iterable[EngineInfo]) -> None:
        """Take the newest profile that these pods measured."""
        self.profile = newest(self.profile, infos_of(pods, infos))


class LaunchSides:
    """The main side, whose launch most replicas have, and the other one.

    apart: whether the pods of the main side are those of `EnginePod.apart`.
    """

    def __init__(self, main: LaunchSide, other: LaunchSide, *, apart: bool) -> None:
        self.main, self.other, self.apart = main, other, apart
        self._tried = False  # at the last tick

    def of(self, pod: EnginePod) -> LaunchSide:
        """The side of a pod with a drafter."""
        return self.main if pod.apart is self.apart else self.other

    def pods(self, model: TunedModel) -> tuple[EnginePod, ...]:
        """The ready pods of the main side."""
        return model.pods_apart(apart=self.apart)

    def other_pods(self, model: TunedModel) -> tuple[EnginePod, ...]:
        """The ready pods of the other side."""
        return model.pods_apart(apart=not self.apart)

    async def renew(self, model: TunedModel, *, older: float) -> bool:
        """See `ModelTuner.renew`."""
        pushed = self._pushed(model)
        return all(await asyncio.gather(*(tables.renew(pods, older=older) for tables, pods in pushed)))

    def renewal_due(self, model: TunedModel, *, older: float) -> bool:
        """See `ModelTuner.renewal_due`."""
        return any(tables.due(pods, older=older) for tables, pods in self._pushed(model))

    def _pushed(self, model: TunedModel) -> tuple[tuple[PushedTables, Sequence[EnginePod]], ...]:
        """What each side pushed, with its pods; empty where no schedule is pushed."""
        if not model.can.live_schedule:
            return ()
        return (self.main.pushed, self.pods(model)), (self.other.pushed, self.other_pods(model))

    def follow(self, model: TunedModel) -> None:
        """Exchange the sides once most replicas have the other launch."""
        if self._tried and model.trial is None:
            self.apart = False  # its pods are those of the spec now
        self._tried = model.trial is not None
        replicas = [pod for pod in model.drafting_pods if not pod.canary]
        apart = sum(pod.apart for pod in replicas)
        if 2 * apart == len(replicas) or (2 * apart > len(replicas)) is self.apart:
            return
        self.main, self.other, self.apart = self.other, self.main, not self.apart
        if self.main.state is None:
            policy = usable(model.policy, self.main.pushed.failed_k)
            self.main.state = TunerState.start(model.static, policy)

    def contrast(
        self, model: TunedModel, decision: Decision | None, counterpart: Decision | None
    ) -> Contrast | None:
        """This tick's comparison, of the pods apart over the others; None while those of a side differ.

        counterpart: the decision about the other side.
        """
        decisions = (decision, counterpart)
        found, back = (each.outlook.contrast if each and each.outlook else None for each in decisions)
        revisions = [{pod.revision for pod in pods} for pods in (self.pods(model), self.other_pods(model))]
        if found is None or back is None or any(len(each) != 1 for each in revisions):
            return None
        found = found.averaged(back.reversed())
        found = replace(found, revisions=" ".join(sorted(set.union(*revisions))))
        return found.reversed() if self.apart else found


def infos_of(pods: Sequence[EnginePod], infos: Iterable[EngineInfo]) -> tuple[EngineInfo, ...]:
    """What these pods report of themselves."""
    names = {pod.name for pod in pods}
    return tuple(one for one in infos if one.pod in names)
