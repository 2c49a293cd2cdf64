"""What keeps one engine core from live tuning, and which hooks of the plugin failed in it."""

from __future__ import annotations

import logging

from outrider_protocol.control_api import Reason, Refusal

logger = logging.getLogger("vllm.outrider")


class Obstacles:
    """The obstacles of one engine core.

    live_tuning: why its schedule cannot change; None where it can.
    """

    def __init__(self, live_tuning: str | None) -> None:
        self.live_tuning = live_tuning
        self.hook_failures = 0
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """The last fault of each hook that failed."""
        return list(self._problems.values())

    def forbid(self, why: str | None) -> None:
        """Accept no schedule any more. An earlier reason stays; None has no effect."""
        self.live_tuning = self.live_tuning or why

    def require_live_tuning(self) -> None:
        """Raise a `Refusal` where the schedule cannot change."""
        if self.live_tuning is not None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, self.live_tuning)

    def failed(self, hook: str, error: Exception | str, consequence: str) -> str:
        """Record the fault of a hook.

        error: a fault, or the words for one of another process.

        Returns:
            the sentence that the state shows.
        """
        words = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self.hook_failures += 1
        why = self._problems[hook] = f"{hook} failed: {words}"
        logger.error("outrider: %s; %s", why, consequence)
        return why
