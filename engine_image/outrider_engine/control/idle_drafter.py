"""Whether decode steps with K=0 skip the drafter of one engine core, until a fault ends that."""

from __future__ import annotations

from typing import Protocol

from outrider_engine.control.engine_facts import EngineFacts
from outrider_engine.control.obstacles import Obstacles
from outrider_engine.idle_drafter.drafter_skip import BlockIds, DrafterOrder, DrafterSkip, Step
from outrider_protocol.engine_state import IdleDrafterWire


class ScheduledStep(Protocol):
    """The part of a scheduled step that concerns the drafter."""

    @property
    def idle(self) -> bool:
        """It drafts nothing and only decodes."""
        ...

    def for_drafter(self) -> Step:
        """The step in whole."""
        ...

    def order_drafter(self, order: DrafterOrder) -> None:
        """Send the order to the workers along with the step."""
        ...


class IdleDrafter:
    """The drafter of one engine core in steps with K=0.

    Nothing here raises. After a fault the drafter runs in every step. Until they end, requests with missed
    tokens get bad drafts.

    skip: the records of missed tokens; None where the drafter runs in every step.
    why_runs: the reason for that; None where steps skip the drafter.
    """

    def __init__(
        self, facts: EngineFacts, skip: DrafterSkip | None, obstacles: Obstacles, *, why_runs: str | None
    ) -> None:
        self._exists = facts.method is not None
        self._skip = skip
        self._runs = why_runs
        self._obstacles = obstacles

    @property
    def left_out(self) -> bool:
        """Whether the latest step skips the drafter, and so has no drafts."""
        return self._skip is not None and self._skip.left_out

    @property
    def steps_skipped(self) -> int:
        """Steps without the drafter since the engine started."""
        return self._skip.steps_skipped if self._skip else 0

    @property
    def tokens_caught_up(self) -> int:
        """Missed tokens that the drafter has processed since."""
        return self._skip.tokens_caught_up if self._skip else 0

    def scheduled(self, step: ScheduledStep) -> None:
        """A step was scheduled."""
        if self._skip is None:
            return
        try:
            order = self._skip.scheduled(step.idle, step.for_drafter)
            if order is not None:
                step.order_drafter(order)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.failed(error)

    def unread(self, blocks: BlockIds) -> set[int]:
        """Those blocks of a request that its drafter never read and never will, as the request ends."""
        if self._skip is None:
            return set()
        try:
            return self._skip.given_back(blocks)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.failed(error)
            return set()

    def failed(self, error: Exception | str) -> None:
        """No step skips the drafter any more."""
        self._skip = None
        self._runs = self._obstacles.failed("the drafter's hook", error, "the drafter runs in every step")

    def failed_in_worker(self, fault: str) -> None:
        """A worker ended the skip. It reports that with every step, and the first report counts."""
        if self._skip is not None:
            self.failed(f"in a worker: {fault}")

    def to_wire(self) -> IdleDrafterWire | None:
        """The form in which the state shows it; None without a drafter."""
        if not self._exists:
            return None
        return IdleDrafterWire(skipped=self._skip is not None, reason=self._runs)
