"""The scheduler's lookup: the pushed schedule or the static one, with overlays on top."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from outrider_engine.control.probe import Probe
from outrider_engine.control.push import Limits
from outrider_protocol.control_api import Refusal
from outrider_protocol.schedule import Schedule

logger = logging.getLogger("vllm.outrider")

Choose: TypeAlias = Callable[[int, int], int]
"""K of a step by its number of requests and by the K of the schedule."""


class Scheduler(Protocol):
    """The part of the scheduler that the control reads and writes.

    lookup: K by number of scheduled requests, which every step reads; None without a schedule.
    """

    lookup: list[int] | None

    def running_contexts(self) -> list[int]:
        """Computed tokens of each running request."""
        ...


class ChoosingLookup(list[int]):
    """A lookup whose single entries are chosen as vLLM reads them, once per step.

    As a list it is the schedule with its overlays.

    choose: must not raise.
    held: batch sizes whose K an overlay holds.
    """

    def __init__(self, lookup: tuple[int, ...], choose: Choose, held: frozenset[int]) -> None:
        super().__init__(lookup)
        self._choose = choose
        self._held = held

    def __getitem__(self, place: Any) -> Any:
        """K of the next step, by its number of requests."""
        entry = super().__getitem__(place)
        if not isinstance(place, int) or place in self._held:
            return entry
        return self._choose(place, entry)


class LookupTable:
    """The one writer of the scheduler's lookup.

    read_static: reads the static schedule, None when no file is configured. Raises OSError or Refusal.
    """

    def __init__(
        self, scheduler: Scheduler, max_num_seqs: int, *, read_static: Callable[[], Schedule | None]
    ) -> None:
        launched = scheduler.lookup
        if launched is not None and len(launched) != max_num_seqs + 1:
            raise ValueError(f"the lookup has {len(launched)} entries for {max_num_seqs} requests")
        self.limits = Limits(max_num_seqs, frozenset((launched or ())[1:]))
        self.problem: str | None = None
        """Why the static schedule is not the configured one; None when it is."""
        self._scheduler = scheduler
        self._read_static = read_static
        self._static: Schedule | None = None
        self._below: Schedule | None = None
        self._written: tuple[int, ...] | None = None
        if launched is not None:
            self._static = Schedule.from_lookup(launched)
            self.reload_static(keep=False)
            self.install(None)

    @property
    def exists(self) -> bool:
        """Whether the engine was launched with a schedule."""
        return self._static is not None

    def install(
        self, pushed: Schedule | None, overlays: Iterable[Probe | None] = (), choose: Choose | None = None
    ) -> None:
        """Write the pushed schedule, or the static one for None, with the overlays on top.

        As a new list each time: a step may hold the old one.

        choose: replaces the schedule, but not the overlays. None for the schedule itself.
        """
        table = pushed or self._static
        if table is None:
            return
        lookup = table.dense(self.limits.max_num_seqs)
        held: set[int] = set()
        for overlay in overlays:
            if overlay is not None and overlay.running:
                lookup = overlay.over(lookup)
                held |= {size for size in range(1, len(lookup)) if overlay.request.contains(size)}
        self._scheduler.lookup = (
            list(lookup) if choose is None else ChoosingLookup(lookup, choose, frozenset(held))
        )
        self._below, self._written = table, lookup

    def reload_static(self, *, keep: bool) -> None:
        """Read the static schedule again.

        keep: an unusable file leaves the previous schedule, as long as that may be used. Otherwise the
            minimum usable K replaces it.
        """
        try:
            table = self._read_static() or self._static
            if table is not None:
                self.limits.require(table.values())
        except (OSError, Refusal) as error:
            self.problem = f"the static schedule cannot be used: {error}"
            logger.error("outrider: %s", self.problem)
            if not (keep and self._static and self._static.values() <= self.limits.usable):
                self._static = Schedule.constant(min(self.limits.usable or self.limits.captured))
        else:
            self.problem, self._static = None, table

    def in_use(self) -> Schedule | None:
        """The schedule beneath the overlays, as the scheduler has it; None without one.

        Rows of the push if the scheduler has what was written, else rows made from its lookup.
        """
        lookup = self._scheduler.lookup
        if lookup is None:
            return None
        return self._below if self._below and tuple(lookup) == self._written else Schedule.from_lookup(lookup)
