"""Pushes of a schedule to all engines of a model, and orders of a probe to one, with their results.

A slow engine delays no other one, and an error of one of them never stops the tick.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from outrider.controller.fleet import EnginePod
from outrider.engine.client import EngineClient
from outrider.engine.errors import (
    EngineDefect,
    EngineError,
    EngineUnreachable,
    LiveTuningImpossible,
    ProbeRunning,
    PushRefused,
)
from outrider.engine.state import EngineState, FastLoop, IdleDrafter
from outrider.tuning.decision import Probe
from outrider_protocol.control_api import Fence, ProbeOrder, Push, Slice
from outrider_protocol.schedule import Schedule

log = logging.getLogger(__name__)

Coming = Callable[[], Sequence[tuple[EnginePod, Push]]]
"""Running pods that are not ready, each with the push that it needs."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A pod that confirmed the wanted schedule."""

    pod: str
    boot_id: str
    at: float  # unix seconds; later counts of the pod belong to this schedule
    failed_k: frozenset[int] = frozenset()  # in the engine's self-test; not to be used
    fast_loop: FastLoop | None = None  # None if the engine takes no cost model
    idle_drafter: IdleDrafter | None = None  # None without a drafter, and for older plugins


@dataclass(frozen=True, slots=True)
class Failed:
    """A pod that did not confirm the schedule. ``error`` has the cause; the next tick retries."""

    pod: str
    error: EngineError
    state: EngineState | None = None  # None if the engine did not report it

    @property
    def failed_k(self) -> frozenset[int] | None:
        """K that failed the engine's self-test; None if the engine did not report it."""
        return None if self.state is None else self.state.failed_k


@dataclass(frozen=True, slots=True)
class PushReport:
    """The results of one push, in the order of the pods.

    kept: pods that were not asked, because they confirmed the same content a short time ago.
    """

    epoch: int
    outcomes: tuple[Confirmed | Failed, ...]
    kept: int = 0

    @property
    def confirmed(self) -> tuple[Confirmed, ...]:
        """Pods that use the wanted schedule."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Confirmed))

    @property
    def failed(self) -> tuple[Failed, ...]:
        """Pods that do not use it, or whose schedule is unknown."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Failed))

    @property
    def unreachable(self) -> bool:
        """True when there are pods and none of them answered."""
        return bool(self.outcomes) and all(
            isinstance(outcome, Failed) and isinstance(outcome.error, EngineUnreachable)
            for outcome in self.outcomes
        )

    @property
    def impossible(self) -> LiveTuningImpossible | None:
        """The first engine's statement that its schedule cannot change while it runs."""
        errors = (outcome.error for outcome in self.failed)
        return next((error for error in errors if isinstance(error, LiveTuningImpossible)), None)

    def __str__(self) -> str:
        """``3/4 at epoch 17; engine-x: timeout``."""
        parts = [f"{len(self.confirmed)}/{len(self.outcomes)} at epoch {self.epoch}"]
        parts += [f"{failed.pod}: {failed.error}" for failed in self.failed]
        broken = ((o.pod, sorted(o.failed_k)) for o in self.outcomes if o.failed_k)
        parts += [f"{pod}: K={', '.join(map(str, k))} failed the self-test" for pod, k in broken]
        return "; ".join(parts)


async def push_to_all(
    engines: EngineClient,
    pods: Sequence[EnginePod],
    push: Push,
    *,
    taught: Set[str] = frozenset(),
    clock: Callable[[], float] = time.time,
) -> PushReport:
    """Push to all pods at once; a slow or refusing pod never delays the others.

    taught: UIDs of the pods that take the cost model; the others get the schedule alone.
    clock: unix seconds.
    """
    plain = push.without_cost_model()
    outcomes = await asyncio.gather(
        *(
            _push_supervised(engines, pod, push if pod.address.pod_uid in taught else plain, clock)
            for pod in pods
        )
    )
    return PushReport(epoch=push.fence.epoch, outcomes=tuple(outcomes))


async def push_ahead_forever(engines: EngineClient, coming: Coming, *, interval_seconds: float) -> None:
    """Push to pods that are not ready, until cancelled: they need their schedule before the first request.

    A slow pod delays no other one.
    """
    under_way: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as pushes:
        while True:
            under_way = {url: task for url, task in under_way.items() if not task.done()}
            for pod, push in coming():
                if pod.address.url not in under_way:
                    pushing = pushes.create_task(_push_ahead(engines, pod, push))
                    under_way[pod.address.url] = pushing
            await asyncio.sleep(interval_seconds)


async def _push_ahead(engines: EngineClient, pod: EnginePod, push: Push) -> None:
    """Push the schedule alone: the operator does not know yet whether this pod takes a cost model."""
    try:
        # Most do not listen yet. The first tick after the pod is ready reports any other error.
        with suppress(EngineError):
            await engines.push(pod.address, push.without_cost_model())
    except Exception:  # supervision: one pod must not end the pushes to all
        log.exception("push to %s failed", pod.name)


async def _push_supervised(
    engines: EngineClient, pod: EnginePod, push: Push, clock: Callable[[], float]
) -> Confirmed | Failed:
    try:
        return await _push_to_one(engines, pod, push, clock)
    except (
        Exception
    ) as error:  # supervision: an error at one pod must not keep the others from their schedule
        log.exception("push to %s failed", pod.name)
        return Failed(pod.name, EngineDefect(error))


async def _push_to_one(
    engines: EngineClient, pod: EnginePod, push: Push, clock: Callable[[], float]
) -> Confirmed | Failed:
    try:
        state = await engines.push(pod.address, push)
        if not state.confirms(push):
            # The answer has the state after the change. A second one says what the engine uses in its place.
            state = await engines.state(pod.address)
    except PushRefused as error:
        return Failed(pod.name, error, await _state(engines, pod))
    except EngineError as error:
        return Failed(pod.name, error)
    if not state.confirms(push):
        return Failed(pod.name, _not_in_force(push.schedule, state.schedule), state)
    return Confirmed(pod.name, state.boot_id, clock(), state.failed_k, state.fast_loop, state.idle_drafter)


async def _state(engines: EngineClient, pod: EnginePod) -> EngineState | None:
    """The engine's state after a refusal: the K that failed the self-test, and its present epoch."""
    try:
        return await engines.state(pod.address)
    except EngineError:
        return None


def _not_in_force(wanted: Schedule, found: Schedule | None) -> EngineError:
    return EngineError(f"accepted the schedule {wanted} but uses {found or 'none'}")


_SHARE_OF_TICK = 0.95
"""Ratio of the tick after which a probe ends. Without an end, a probe for a past load would block the
next."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The result of one order of a probe. ``error``: None if it runs."""

    probe: Probe
    error: EngineError | None

    @property
    def failed(self) -> bool:
        """Whether the probe does not run for another cause than a running probe."""
        return self.error is not None and not isinstance(self.error, ProbeRunning)

    def __str__(self) -> str:
        """``probe of K 1, 0 at batch 7-12 on default/m-1: timeout``."""
        lengths = ", ".join(str(part.num_speculative_tokens) for part in self.probe.slices)
        bin_ = f"{self.probe.low}+" if self.probe.high is None else f"{self.probe.low}-{self.probe.high}"
        return f"probe of K {lengths} at batch {bin_} on {self.probe.pod}: {self.error or 'runs'}"


async def start_probe(
    engines: EngineClient,
    probe: Probe,
    *,
    id: str,  # noqa: A002 - the contract's name
    pods: Sequence[EnginePod],
    push: PushReport,
    term: int,
    tick_seconds: float,
) -> ProbeReport | None:
    """Order the probe if its pod confirmed the schedule of this tick; None if it did not.

    tick_seconds: until the next tick, before which the probe ends in any case.
    """
    _, _, name = probe.pod.rpartition("/")
    pod = next((pod for pod in pods if pod.name == name), None)
    if pod is None or name not in {outcome.pod for outcome in push.confirmed}:
        return None
    order = ProbeOrder(
        Fence(term, push.epoch),
        id,
        probe.low,
        probe.high,
        tuple(Slice(part.num_speculative_tokens, part.seconds) for part in probe.slices),
        deadline_seconds=_SHARE_OF_TICK * tick_seconds,
    )
    try:
        await engines.probe(pod.address, order)
    except EngineError as error:
        return ProbeReport(probe, error)
    except Exception as error:  # supervision: a failed probe must not lose the result of the push
        log.exception("probe of %s failed", probe.pod)
        return ProbeReport(probe, EngineDefect(error))
    return ProbeReport(probe, None)
