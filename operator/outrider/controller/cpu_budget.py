"""The CPU budget of one model on a loop that all models share.

Only the steps on the loop count, without waits and without the work of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")
KeyT = TypeVar("KeyT", bound=Hashable)

_MAX_REST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Overspent:
    """Work that exceeded its budget. All in seconds; rest: time until the key is worked on again."""

    spent: float
    budget: float
    rest: float


def tuning_rests(used: Overspent) -> str:
    """The note of an Event about a tick."""
    return (
        f"Outrider tunes this model only every {used.rest:.0f} s, because one tick took {used.spent:.1f} s"
        f" of CPU and may take {used.budget:g} s. If the pause exceeds the operator's tuning.lease,"
        " engines use the static schedule. To change it, split the model into several with fewer"
        " replicas, or lower numSpeculativeTokens or max-num-seqs."
    )


def planning_rests(used: Overspent) -> str:
    """The note of an Event about a reconcile."""
    return (
        f"Outrider reconciles this model again in {used.rest:.0f} s and doubles that time, because one"
        f" reconcile took {used.spent:.1f} s of CPU and may take {used.budget:g} s. To change it, make the"
        " spec smaller, podTemplate and engine.args first."
    )


@dataclass(slots=True)
class _Account:
    rests_until: float
    times: int  # in a row


class CpuBudget(Generic[KeyT]):
    """Delays keys whose work exceeded its budget.

    The delay is the CPU time spent divided by `share`. With ``doubling`` it doubles each time in a row,
    because the work likely costs the same again.

    budget: seconds of CPU for one piece of work. share: ratio of one CPU for one key.
    overspent: called when a key begins to exceed its budget, and again only after it has kept it.
    clock: monotonic seconds.
    """

    def __init__(
        self,
        budget: float,
        *,
        share: float,
        overspent: Callable[[KeyT, Overspent], object],
        doubling: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._share = share
        self._overspent = overspent
        self._doubling = doubling
        self._clock = clock
        self._accounts: dict[KeyT, _Account] = {}

    def rest(self, key: KeyT) -> float:
        """Seconds until the key may be worked on; 0 if it may be now."""
        account = self._accounts.get(key)
        return 0.0 if account is None else max(0.0, account.rests_until - self._clock())

    async def spend(self, key: KeyT, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do the work and record its CPU time, also if it fails."""
        metered = Metered(work)
        try:
            return await metered
        finally:
            self._note(key, metered.seconds)

    def forget(self, key: KeyT) -> None:
        """Drop a key."""
        self._accounts.pop(key, None)

    def _note(self, key: KeyT, spent: float) -> None:
        if spent <= self._budget:
            self.forget(key)
            return
        before = self._accounts.get(key)
        times = 1 if before is None else before.times + 1
        growth = 2.0 ** min(times - 1, 16) if self._doubling else 1.0
        rest = min(spent / self._share * growth, _MAX_REST_SECONDS)
        self._accounts[key] = _Account(self._clock() + rest, times)
        if before is None:
            self._overspent(key, Overspent(spent, self._budget, rest))


class Metered(Generic[ResultT]):
    """Awaits a coroutine and adds up the CPU time of its steps in `seconds`."""

    def __init__(self, work: Coroutine[Any, Any, ResultT]) -> None:
        self._work = work
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, ResultT]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            began = time.thread_time()
            try:
                waited_for = step()
            except StopIteration as end:
                result: ResultT = end.value
                return result
            finally:
                self.seconds += time.thread_time() - began
            try:
                step = partial(self._work.send, (yield waited_for))
            except BaseException as error:  # noqa: BLE001 - every error belongs to the work, cancellation too
                step = partial(self._work.throw, error)
