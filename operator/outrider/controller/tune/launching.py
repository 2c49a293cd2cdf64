"""Orders about how one model's engines are launched: judged at each tick, given until they are stored."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

from outrider.api.launch import Launch, LaunchOrder
from outrider.api.reasons import TuningReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import Actuation, TuningMode
from outrider.cluster.errors import ClusterError, Unavailable
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.launch_orders import LaunchOrders
from outrider.controller.tune.permission import Permission
from outrider.tuning.decision import Decision
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.rules import Scene, Verdict, judge
from outrider.tuning.relaunch.state import RelaunchState

_HELD = (TuningReason.PAUSED, TuningReason.OVERRIDDEN, TuningReason.ROLLED_BACK)
_ORDER_SECONDS = 5.0
"""Longest wait for the API server; every model waits for the end of the tick."""


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """How many pods run the table that engines are launched with."""

    table: Schedule
    running: int
    pods: int  # ready ones that have a drafter

    def __str__(self) -> str:
        """``2/3 pods run the table 8:3,*:0``."""
        return f"{self.running}/{self.pods} pods run the table {self.table.merged()}"


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """What became of a tick's verdict."""

    before: LaunchOrder
    verdict: Verdict
    error: ClusterError | None = None  # the order could not be stored; the one before stands

    @property
    def ordered(self) -> bool:
        """Another order than before was stored."""
        return self.error is None and self.verdict.state.order != self.before


class LaunchTuner:
    """Judges and orders for one model. Not for concurrent use.

    restored: what an earlier process remembered.
    """

    def __init__(self, launch_orders: LaunchOrders, restored: RelaunchState) -> None:
        self._launch_orders = launch_orders
        self._static: Schedule | None = None  # as last seen; None in a fresh process
        self._read: LaunchOrder | None = None  # as last stored, by whomever
        self.state = restored
        """To be kept for a later process."""

    async def tick(
        self, model: TunedModel, policy: Policy, decision: Decision | None, rule: Permission, now: float
    ) -> LaunchOutcome | None:
        """None where the launch is none of the tuner's business at present."""
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
        scene = Scene(
            limits=limits,
            decision=decision,
            static=model.static,
            replicas=model.replicas,
            ready=len(replicas),
            as_ordered=sum(runs(pod, before.launch, model) for pod in replicas),
            canaries=len(model.pods) - len(replicas),
            now=now,
        )
        verdict = judge(scene, self.state, policy)
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
        """What was learnt of launches; the order stands."""
        self.state = replace(self.state, refused=(), strikes=0, wish=None, wished_at=None)

    async def _forget(self, model: TunedModel) -> None:
        """What was ordered before must not come back when relaunches are allowed again some day."""
        self.state = RelaunchState()
        with suppress(ClusterError):
            await self._order(model, LaunchOrder())

    async def _order(self, model: TunedModel, order: LaunchOrder) -> None:
        try:
            async with asyncio.timeout(_ORDER_SECONDS):
                await self._launch_orders.order(model, order)
        except TimeoutError as error:
            raise Unavailable(f"not stored within {_ORDER_SECONDS:g} s") from error

    def _follow(self, model: TunedModel, now: float) -> None:
        """The stored order is the truth for a fresh process, where the spec forbids the last one, and
        where a person changed or deleted it.

        Otherwise what was ordered just now may not have been read back yet.
        """
        fresh, by_hand = self._static is None, self._read == self.state.order != model.order
        self._read = model.order
        if fresh or by_hand or model.limits.effective(self.state.order) != self.state.order:
            self.state = self.state.adopting(model.order, now)
        elif self._static != model.static and self.state.order.launch.schedule is not None:
            # The user's new table rules until a better one is found.
            self.state = self.state.adopting(replace(self.state.order, launch=Launch()), now)
        self._static = model.static


def launched_table(model: TunedModel) -> Schedule:
    """What engines with a drafter are launched with."""
    return model.order.launch.schedule or model.static


def runs(pod: EnginePod, launch: Launch, model: TunedModel) -> bool:
    """Whether a pod was launched like this."""
    if pod.launch.drafter is not launch.drafter:
        return False
    if not pod.launch.drafter or model.relaunching.actuation is Actuation.LIVE:
        return True
    return _table(pod.launch, model) == _table(launch, model)


def _table(launch: Launch, model: TunedModel) -> Schedule:
    return (launch.schedule or model.static).merged()
