"""The first work of a new leader: renew the schedules that engines hold, before they lapse.

A tick of a model needs its reconcile, its stored tuner state and its engines' states. For a thousand models
that takes longer than a lease. A push needs the model's key and the schedule in its status alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from outrider.cluster.errors import ClusterError
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.stored import Key
from outrider.controller.tune.actuation import push_to_all
from outrider.controller.tune.model_tuner import Engines
from outrider.controller.tune.snapshot import reported_schedule
from outrider.controller.tune.timing import MODELS_RENEWED_AT_ONCE, Timing
from outrider_protocol.control_api import Fence, Push

log = logging.getLogger(__name__)

_LEASES = 3
"""Lengths of a lease after which a model that no tick has reached is left to its static schedule."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What the engines of a model hold, under the term of this leader."""

    uid: str
    pods: tuple[EnginePod, ...]
    order: Push


class FirstRenewals:
    """Renews what engines hold, until a tick has pushed to them.

    A later push of the tuner has a higher epoch, so engines refuse one of these that comes after it. The
    schedule comes without a cost model, as in the first push of a tuner.

    read: a model with its key, before it is reconciled; None where there is nothing to push to.
    ticked: whether a tick has pushed to the engines of the model with this UID.
    """

    def __init__(
        self,
        engines: Engines,
        timing: Timing,
        *,
        read: Callable[[Key], Awaitable[TunedModel | None]],
        ticked: Callable[[str], bool],
    ) -> None:
        self._engines = engines
        self._timing = timing
        self._read = read
        self._ticked = ticked
        self._slots = asyncio.Semaphore(MODELS_RENEWED_AT_ONCE)

    async def first(self, models: Sequence[Key]) -> list[_Held]:
        """Renew all of these models once. Returns those that need more renewals until they are ticked."""
        found = await asyncio.gather(*(self._first_of(key) for key in models))
        return [held for held in found if held is not None]

    async def repeat(self, held: Sequence[_Held]) -> None:
        """Renew these again before each lease is over, until ticks have reached all of them."""
        for _ in range(int(_LEASES * self._timing.renewals)):
            await asyncio.sleep(self._timing.push_lease / self._timing.renewals)
            held = [each for each in held if not self._ticked(each.uid)]
            if not held:
                return
            await asyncio.gather(*(self._again(each) for each in held))

    async def _first_of(self, key: Key) -> _Held | None:
        async with self._slots:
            try:
                model = await self._read(key)
            except ClusterError as error:
                log.warning("%s: its schedule was not renewed first: %s", key, error)
                return None
            except Exception:  # supervision: one model must not keep the others from their schedule
                log.exception("%s: its schedule was not renewed first", key)
                return None
            held = None if model is None else self._held(model)
            if held is not None:
                await self._push(held)
            return held

    async def _again(self, held: _Held) -> None:
        async with self._slots:
            if not self._ticked(held.uid):
                await self._push(held)

    async def _push(self, held: _Held) -> None:
        await push_to_all(self._engines.client, held.pods, held.order)

    def _held(self, model: TunedModel) -> _Held | None:
        """None where the status does not say what each engine holds."""
        schedule, pods = reported_schedule(model), model.drafting_pods
        if schedule is None or not model.can.live_schedule or len({pod.apart for pod in pods}) != 1:
            return None
        epoch = self._engines.versions.next(model.uid)
        order = Push(Fence(self._engines.term(), epoch), schedule, self._timing.push_lease)
        return _Held(model.uid, pods, order)
