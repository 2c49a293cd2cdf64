"""The control of one engine core: it owns what the scheduler's table is, and why."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from outrider_engine import __version__
from outrider_engine.control import Control, Limits, Push, accept, lapse
from outrider_engine.refusal import Reason, Refusal
from outrider_engine.state import LiveTuning, State
from outrider_engine.support import EngineFacts, obstacle
from outrider_engine.table import Table, captured_values, read_back, require_captured

logger = logging.getLogger("vllm.outrider")

Clock = Callable[[], float]


class Scheduler(Protocol):
    """The part of vLLM's scheduler that is read and written."""

    dynamic_sd_lookup: list[int] | None


class EngineCoreControl:
    """Lives as long as its scheduler and runs on the engine core's thread only, between steps.

    read_static: the static table of this moment, None when no file is configured; read at the
        start and again when a lease lapses. Raises OSError or Refusal.
    clock: monotonic seconds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        facts: EngineFacts,
        *,
        read_static: Callable[[], Table | None],
        clock: Clock = time.monotonic,
    ) -> None:
        launched = scheduler.dynamic_sd_lookup
        self._scheduler = scheduler
        self._facts = facts
        self._clock = clock
        self._read_static = read_static
        self._boot_id = uuid.uuid4().hex
        self._limits = Limits(facts.max_num_seqs, captured_values(launched or ()))
        self._obstacle = obstacle(facts, has_table=launched is not None)
        self._problems: dict[str, str] = {}
        self._control = Control()
        self._static: Table | None = None
        if launched is not None:
            if len(launched) != facts.max_num_seqs + 1:
                raise ValueError(f"the lookup has {len(launched)} entries for {facts.max_num_seqs} requests")
            self._static = self._load_static(otherwise=None) or read_back(launched)
            self._apply(self._control)

    def before_schedule(self) -> None:
        """The step hook. Never raises: a failure disables it for good, and serving goes on."""
        if self._control.lease_ends_at is None:
            return
        try:
            self._lapse()
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self._disable(error)

    def put(self, push: Push) -> State:
        """Install a pushed table, or renew its lease.

        Raises:
            Refusal: nothing was changed.
        """
        if self._obstacle is not None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, self._obstacle)
        self._apply(accept(self._control, push, limits=self._limits, now=self._clock()))
        return self.state()

    def state(self) -> State:
        """What the scheduler really uses at this moment, read from it."""
        self.before_schedule()
        control, facts = self._control, self._facts
        lookup, last = self._scheduler.dynamic_sd_lookup, control.last_push
        return State(
            bootId=self._boot_id,
            engineVersion=facts.engine_version,
            pluginVersion=__version__,
            method=facts.method,
            runner=facts.runner.value,
            maxNumSeqs=facts.max_num_seqs,
            numSpeculativeTokens=facts.num_speculative_tokens,
            capturedK=sorted(self._limits.captured),
            liveTuning=LiveTuning(possible=self._obstacle is None, reason=self._obstacle),
            schedule=None if lookup is None else read_back(lookup, asked=self._table_of(control)).to_wire(),
            source=control.source.value,
            term=last.fence.term if last else 0,
            epoch=last.fence.epoch if last else 0,
            leaseRemainingSeconds=control.lease_remaining_seconds(self._clock()),
            engines=1,
            enginesAgree=True,
            problems=sorted(self._problems.values()),
        )

    def _lapse(self) -> None:
        control = lapse(self._control, self._clock())
        if control is self._control:
            return
        self._static = self._load_static(otherwise=self._static)
        self._apply(control)
        logger.warning("outrider: the lease of the pushed table ran out; the static table is back")

    def _load_static(self, *, otherwise: Table | None) -> Table | None:
        """The static table; without a usable one ``otherwise``, or else the smallest K."""
        try:
            table = self._read_static()
            if table is not None:
                require_captured(table, self._limits.captured)
        except (OSError, Refusal) as error:
            table = otherwise or Table.constant(min(self._limits.captured))
            self._problems["static"] = f"the static schedule cannot be used: {error}"
            logger.error("outrider: %s", self._problems["static"])
        else:
            self._problems.pop("static", None)
            table = table or otherwise
        return table

    def _apply(self, control: Control) -> None:
        """Put the table of ``control`` into the scheduler, as a new list: a step may hold the old one."""
        table = self._table_of(control)
        if table is not None:
            self._scheduler.dynamic_sd_lookup = list(table.dense(self._limits.max_num_seqs))
        self._control = control

    def _table_of(self, control: Control) -> Table | None:
        return control.pushed_table or self._static

    def _disable(self, error: Exception) -> None:
        """Without the hook a lease could never lapse, so the pushed table goes and none is taken again."""
        self._obstacle = self._problems["hook"] = f"the step hook failed: {type(error).__name__}: {error}"
        logger.error("outrider: %s; live tuning is off, serving goes on", self._obstacle)
        self._control = replace(self._control, lease_ends_at=None)
        # The step must go on even where the table cannot be written.
        with suppress(Exception):
            self._apply(self._control)
