"""Launch orders of one model: judged at each tick, and repeated until they are stored."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

from outrider.api.launch import Launch, LaunchOrder
from outrider.api.reasons import TuningReason
from outrider.api.tuning import Actuation, TuningMode
from outrider.cluster.errors import ClusterError, Unavailable
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.tune.api_server import ApiServer
from outrider.controller.tune.permission import Permission
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.contrast import Contrast, Contrasts
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.inputs import RelaunchInput, Verdict
from outrider.tuning.relaunch.judge import judge
from outrider.tuning.relaunch.state import RelaunchState
from outrider_protocol.schedule import Schedule

_HELD = (TuningReason.PAUSED, TuningReason.OVERRIDDEN, TuningReason.ROLLED_BACK)


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """The number of pods that run the schedule of the launch."""

    table: Schedule
    running: int
    pods: int  # ready ones with a drafter

    def __str__(self) -> str:
        """``2/3 pods run the schedule 8:3,*:0``."""
        return f"{self.running}/{self.pods} pods run the schedule {self.table.merged()}"


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The result of a tick's verdict."""

    before: LaunchOrder
    verdict: Verdict
    error: ClusterError | None = None  # the order was not stored; the one before remains

    @property
    def ordered(self) -> bool:
        """Whether another order than before was stored."""
        return self.error is None and self.verdict.state.order != self.before


class LaunchTuner:
    """Judges and orders the launch of one model. Not for concurrent use.

    restored: the state of an earlier process.
    timeout_seconds: for the API server to store an order.
    """

    def __init__(self, api_server: ApiServer, restored: RelaunchState, *, timeout_seconds: float) -> None:
        self._api_server = api_server
        self._timeout = timeout_seconds
        self._static: Schedule | None = None  # as last seen; None in a new process
        self._read: LaunchOrder | None = None  # as last stored, also by a user
        self.state = restored
        """The state to save for a later process."""

    async def tick(
        self,
        model: TunedModel,
        policy: Policy,
        decision: Decision | None,
        rule: Permission,
        now: float,
        *,
        contrast: Contrast | None = None,
    ) -> LaunchOutcome | None:
        """Judge the launch, and order another one. Returns None if the tuner may not judge it at present.

        contrast: of adaptive over fixed verification, or of a new drafter over the one before.
        """
        auto = model.mode is TuningMode.AUTO
        limits = model.relaunching if auto else model.relaunching.advising()
        if auto and limits.silent and model.stored_order != LaunchOrder():
            await self._forget(model)
        if limits.silent or model.mode is TuningMode.OFF or rule.reason in _HELD:
            return None
        if auto:
            self._follow(model, now)
        before = self.state.order if auto else model.order
        replicas = [pod for pod in model.pods if not pod.canary]
        inputs = RelaunchInput(
            limits=limits,
            decision=decision,
            static=model.static,
            replicas=model.replicas,
            ready=len(replicas),
            as_ordered=sum(runs(pod, before.launch, model) for pod in replicas),
            canaries=sum(
                pod.canary and (model.trial is None or pod.launch == Launch()) for pod in model.pods
            ),
            now=now,
            contrast=contrast,
            adaptive_refusal=model.adaptive_refusal,
            trial=model.trial,
        )
        verdict = judge(inputs, self.state, policy)
        if not auto:
            return LaunchOutcome(verdict.state.order, verdict)
        if verdict.state.order != model.stored_order:
            try:
                await self._order(model, verdict.state.order)
            except ClusterError as error:
                return LaunchOutcome(before, verdict, error)
        self.state = verdict.state
        return LaunchOutcome(before, verdict)

    def forget(self) -> None:
        """Drop the results of earlier launches; the order remains."""
        self.state = replace(
            self.state,
            refused=(),
            strikes=0,
            wish=None,
            wished_at=None,
            compared_at=None,
            contrasts=Contrasts(),
            verification=None,
            trial="",
            drafter=None,
        )

    async def _forget(self, model: TunedModel) -> None:
        """Drop the order, so that it does not return when relaunches are allowed again."""
        self.state = RelaunchState()
        with suppress(ClusterError):
            await self._order(model, LaunchOrder())

    async def _order(self, model: TunedModel, order: LaunchOrder) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._api_server.order(model, order)
        except TimeoutError as error:
            raise Unavailable(f"the API server did not store it within {self._timeout:g} s") from error

    def _follow(self, model: TunedModel, now: float) -> None:
        """Adopt the stored order in a new process, if the spec forbids the last one, or a user changed it.

        Otherwise the order of the last tick may not have been read back yet.
        """
        fresh, by_hand = self._static is None, self._read == self.state.order != model.order
        self._read = model.order
        if fresh or by_hand or model.effective(self.state.order) != self.state.order:
            self.state = self.state.adopting(model.order, now)
        elif self._static != model.static and self.state.order.launch.schedule is not None:
            # The user's new schedule stays until a better one is found.
            self.state = self.state.adopting(replace(self.state.order, launch=Launch()), now)
        self._static = model.static


def launched_table(model: TunedModel) -> Schedule:
    """The schedule with which engines with a drafter are launched."""
    return model.order.launch.schedule or model.static


def launched_pods(model: TunedModel) -> tuple[EnginePod, ...]:
    """The ready pods with a drafter that were launched as ordered."""
    ordered = replace(model.order.launch, drafter=True)
    return tuple(pod for pod in model.drafting_pods if runs(pod, ordered, model))


def launch_report(model: TunedModel) -> LaunchReport | None:
    """The progress of a launch; None without pods with a drafter."""
    drafting = model.drafting_pods
    if not drafting:
        return None
    return LaunchReport(launched_table(model), running=len(launched_pods(model)), pods=len(drafting))


def runs(pod: EnginePod, launch: Launch, model: TunedModel) -> bool:
    """Whether a pod has this launch configuration."""
    if (pod.launch.drafter, pod.launch.adaptive) != (launch.drafter, launch.adaptive):
        return False
    if not pod.launch.drafter or model.relaunching.actuation is Actuation.LIVE:
        return True
    return _table(pod.launch, model) == _table(launch, model)


def _table(launch: Launch, model: TunedModel) -> Schedule:
    return (launch.schedule or model.static).merged()
