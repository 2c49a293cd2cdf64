"""The control of one engine core: which schedule is in force, and why."""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from outrider_engine import __version__
from outrider_engine.control.engine_facts import Abilities, EngineFacts
from outrider_engine.control.fast_loop_chooser import Choice, FastLoopChooser
from outrider_engine.control.idle_drafter import IdleDrafter
from outrider_engine.control.limit_rules import LimitRules
from outrider_engine.control.lookup import LookupTable, Scheduler
from outrider_engine.control.obstacles import Obstacles
from outrider_engine.control.probe import Probe, start
from outrider_engine.control.push import Control, accept, lapse, require_in_force
from outrider_engine.control.request_limits import RequestLimits
from outrider_engine.control.startup_requests import StartupRequests
from outrider_engine.control.state import Measurement
from outrider_engine.counting.adapters import AdapterDrafts
from outrider_engine.counting.measure import Backlog, Meter, Step
from outrider_engine.counting.trimmed import UNKNOWN, TrimmedDrafts
from outrider_engine.idle_drafter.drafter_skip import DrafterSkip
from outrider_protocol.control_api import ProbeOrder, Push, Reason, Refusal
from outrider_protocol.cost_model import launch_revision
from outrider_protocol.engine_state import (
    Inactive,
    LiveTuning,
    ProbeReason,
    State,
)
from outrider_protocol.schedule import Schedule

logger = logging.getLogger("vllm.outrider")

_MAX_PROBES_KNOWN = 10_000
"""Under one schedule; a day of probes without a pause."""


class EngineCoreControl:
    """Lives as long as its scheduler. Runs on the engine core's thread only, between steps.

    read_static: reads the static schedule, None when no file is configured. Called at the start and
        when a lease lapses. Raises OSError or Refusal.
    meter: counts the steps; None where they cannot be counted.
    measuring: whether the meter counts from the start.
    drafter_skip: which steps skip the drafter; None where it runs in every step.
    limit_rules: None for an engine without rules.
    clock: monotonic seconds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        facts: EngineFacts,
        abilities: Abilities,
        *,
        read_static: Callable[[], Schedule | None],
        meter: Meter | None = None,
        measuring: bool = True,
        drafter_skip: DrafterSkip | None = None,
        limit_rules: LimitRules | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._facts = facts
        self._clock = clock
        self._boot_id = uuid.uuid4().hex
        self._table = LookupTable(scheduler, facts.max_num_seqs, read_static=read_static)
        self._obstacles = Obstacles(abilities.live_tuning)
        self._meter = meter
        self.backlog = Backlog(self.measuring_failed)
        """Steps that are not counted yet."""
        self.trimmed_drafts = TrimmedDrafts(
            facts.num_speculative_tokens, adaptive=facts.adaptive_verification
        )
        self.adapter_drafts = AdapterDrafts(facts.adapters_of)
        self._measuring = measuring and meter is not None
        self.idle_drafter = IdleDrafter(facts, drafter_skip, self._obstacles, why_runs=abilities.idle_drafter)
        self.fast_loop = FastLoopChooser(
            scheduler.running_contexts,
            obstacle=abilities.live_tuning or abilities.fast_loop,
            revision=launch_revision(facts.method or "", facts.max_num_seqs, facts.num_speculative_tokens),
            failed=self.fast_loop_failed,
            drafts_ahead=facts.drafts_ahead,
        )
        self.request_limits = RequestLimits(facts, self._usable_k, limit_rules)
        self._control = Control()
        self._probe: Probe | None = None
        # Under the fence in force. A replayed request must not run its probe again.
        self._probes_run: deque[str] = deque(maxlen=_MAX_PROBES_KNOWN)
        self.startup = StartupRequests(
            facts,
            abilities,
            self._table,
            obstacle=self._requests_obstacle,
            judged=self._heed_self_test,
            changed=self._install,
            clock=clock,
        )
        if self.startup.self_test.failed & self._table.limits.captured:
            self._heed_self_test()
            self._install()

    @property
    def meter(self) -> Meter | None:
        """The meter while steps are to be counted; during the startup profile, the profile's own."""
        return (self.startup.meter or self._meter) if self._measuring else None

    @property
    def counts_for_clients(self) -> bool:
        """Whether steps are counted, and serve clients' requests and not the startup profile's."""
        return self._measuring and self.startup.meter is None

    # The hooks of a step. None of them ever raises: a failure disables for good what failed, and the engine
    # continues to serve.

    def before_schedule(self) -> None:
        """A step is about to look K up: leases lapse and probes end."""
        ends = self._control.lease_ends_at
        if (ends is None or self._clock() < ends) and self.at_rest:
            return
        try:
            self._pass_time()
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self._disable_tuning(error)

    def after_step(self, step: Step, choice: Choice | None = None) -> None:
        """A step was counted: each probe continues with its next part, or ends.

        choice: what the fast loop chose for it.
        """
        try:
            active = self.fast_loop.active
            self.fast_loop.measured(step, choice)
            if active and not self.fast_loop.active:
                self._install()
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.fast_loop_failed(error)
        if self.at_rest:
            return
        try:
            before = self._overlaid()
            self._probe = self._probe.after(step) if self._probe else None
            self.startup.after(step)
            if self._overlaid() != before:
                self._install()
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self._disable_tuning(error)

    def hook_missing(self, hook: str) -> None:
        """The engine has no such function to hook, so no schedule is taken."""
        why = self._obstacles.failed(hook, "this release does not have it", "the engine continues to serve")
        self._obstacles.forbid(why)
        self.fast_loop.disable(why)

    def measuring_failed(self, error: Exception) -> None:
        """Steps cannot be counted any more. Schedules and leases stay as they are."""
        self._meter, self.startup.meter, self._measuring = None, None, False
        self.fast_loop.disable("steps cannot be counted any more")
        self._obstacles.failed("the measuring hook", error, "serving continues without counting")

    def trimmed_drafts_unknown(self) -> None:
        """Trimmed drafts are not counted. The acceptance is then wrong, so no schedule is taken any more."""
        self._obstacles.forbid(UNKNOWN)
        self.fast_loop.disable(UNKNOWN)
        self._install()

    def fast_loop_failed(self, error: Exception) -> None:
        """The fast loop chooses no more. The schedule is in force."""
        consequence = "the schedule decides, the engine continues to serve"
        self.fast_loop.disable(self._obstacles.failed("the fast loop", error, consequence))

    def request_limits_failed(self, error: Exception) -> None:
        """Requests are limited no more."""
        self.request_limits.disable()
        self._obstacles.failed("the hook of K limits", error, "every request gets the drafts of its step")

    def adapter_drafts_failed(self, error: Exception) -> None:
        """Drafts are counted by adapter no more."""
        self.adapter_drafts.disable()
        self._obstacles.failed("the hook of LoRA adapters", error, "drafts are not counted by adapter")

    # The requests of the control API. A `Refusal` says that nothing was changed.

    def put(self, push: Push) -> State:
        """Install a pushed schedule, or renew its lease."""
        self._obstacles.require_live_tuning()
        before = self._control
        self._control = accept(before, push, limits=self._table.limits, now=self._clock())
        if before.last_push is None or before.last_push.fence != push.fence:
            self._end_probe(ProbeReason.SUPERSEDED)
            self._probes_run.clear()
        self.fast_loop.take(push, self._table.limits)
        if not self._measuring:
            self.fast_loop.stop(Inactive.NOT_COUNTED)
        self._install()
        return self.state()

    def start_probe(self, request: ProbeOrder) -> State:
        """Run a probe on top of the pushed schedule. A repeated request does not run it again."""
        self._obstacles.require_live_tuning()
        self.before_schedule()
        require_in_force(self._control, request.fence)
        known, limits = self._probe, self._table.limits
        if request.id in self._probes_run:
            return self.state()
        if known is not None and known.running:
            raise Refusal(Reason.PROBE_RUNNING, f"the probe {known.request.id} runs")
        if request.low > limits.max_num_seqs:
            raise Refusal(Reason.MALFORMED, f"this engine runs at most {limits.max_num_seqs} requests")
        limits.require(request.values())
        if self.meter is None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, "measuring is off, so a probe would not end")
        self._probe = start(request, self._clock())
        self._probes_run.append(request.id)
        self._install()
        return self.state()

    def measure(self, *, enabled: bool) -> State:
        """Count steps, or pause the counting."""
        if self._meter is None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, "steps cannot be counted in this engine")
        if enabled != self._measuring:
            self._meter.forget()
            self._measuring = enabled
            self.fast_loop.stop(Inactive.NOT_COUNTED)
            self._install()
        return self.state()

    def state(self) -> State:
        """What the scheduler uses at this moment, read from the scheduler."""
        self.before_schedule()
        control, facts, table = self._control, self._facts, self._table.in_use()
        fence = control.last_push.fence if control.last_push else None
        why, rules = self._obstacles.live_tuning, self.request_limits.rules
        rules.look()
        problems = [*self._obstacles.problems, *filter(None, [self._table.problem, rules.problem])]
        return State(
            bootId=self._boot_id,
            engineVersion=facts.engine_version,
            pluginVersion=__version__,
            simulated=facts.simulated,
            method=facts.method,
            runner=None if facts.runner is None else str(facts.runner),
            cudaGraphs=facts.cuda_graphs,
            maxNumSeqs=facts.max_num_seqs,
            numSpeculativeTokens=facts.num_speculative_tokens,
            capturedK=sorted(self._table.limits.captured),
            liveTuning=LiveTuning(possible=why is None, reason=why),
            schedule=table.to_wire() if table else None,
            source=control.source.value,
            term=fence.term if fence else 0,
            epoch=fence.epoch if fence else 0,
            leaseRemainingSeconds=control.lease_remaining_seconds(self._clock()),
            measuring=self._measuring,
            probe=self._probe.to_wire() if self._probe else None,
            verification=self.trimmed_drafts.to_wire(),
            fastLoop=self.fast_loop.to_wire(),
            idleDrafter=self.idle_drafter.to_wire(),
            selfTest=self.startup.self_test.to_wire(),
            startupProfile=self.startup.profile.to_wire(),
            engines=1,
            enginesAgree=True,
            problems=sorted(problems),
        )

    def state_with_step_times(self) -> State:
        """The state with the startup profile. The profile never changes, so answers to pushes omit it."""
        state = self.state()
        state["stepTimes"] = self.startup.step_times
        return state

    def measurement(self) -> Measurement:
        """The sums over all steps, and the values of the gauges."""
        table, meter = self._table.in_use(), self._meter
        return Measurement(
            state=self.state(),
            lookup=list(table.dense(self._facts.max_num_seqs)) if table else None,
            cells=meter.sums() if meter else [],
            stepTimes=self.startup.step_times,
            hookSeconds=meter.hook_seconds if meter else 0.0,
            hookFailures=self._obstacles.hook_failures,
            drafterStepsSkipped=self.idle_drafter.steps_skipped,
            adapters=self.adapter_drafts.sums(),
            requestLimits=self.request_limits.outcomes_by_name(),
            requestsByRule=dict(self.request_limits.rules.requests),
            withheldDraftTokens=self.request_limits.withheld_tokens,
            drafterTokensCaughtUp=self.idle_drafter.tokens_caught_up,
            longestStepSeconds=self.longest_step_seconds,
        )

    @property
    def longest_step_seconds(self) -> float:
        """0 where steps are not counted."""
        return self._meter.longest_step_seconds if self._meter else 0.0

    @property
    def visiting(self) -> bool:
        """Whether the visit of the startup profile has parts left."""
        self.before_schedule()
        return self.startup.profile.visiting

    def end_profile(self, fault: str | None) -> None:
        """Close the startup profile. From here on steps serve clients."""
        self.startup.close_profile(fault)
        if self._meter is not None:
            self._meter.forget()
        self._install()

    def _requests_obstacle(self) -> str | None:
        """Why requests of the plugin's own would show nothing."""
        return self._obstacles.live_tuning or ("steps are not counted" if self.meter is None else None)

    def _pass_time(self) -> None:
        now, before = self._clock(), self._timed()
        control = self._control
        self._control = lapse(control, now)
        self.startup.pass_time(now)
        if self._control is not control:
            self._end_probe(ProbeReason.LEASE_LAPSED)
            self.fast_loop.stop(Inactive.LEASE_LAPSED)
            self._table.reload_static(keep=True)
            logger.warning("outrider: no push renewed the lease, so the static schedule is in force")
        self._probe = self._probe.at(now) if self._probe else None
        if self._timed() != before:
            self._install()

    def _timed(self) -> tuple[object, ...]:
        return self._control, self._probe, self.startup.self_test, self.startup.profile.visiting

    def _heed_self_test(self) -> None:
        self._obstacles.forbid(self.startup.self_test.obstacle)
        why = self._obstacles.live_tuning
        if why is not None:
            self.fast_loop.disable(why)
        self._table.limits = replace(self._table.limits, failed=self.startup.self_test.failed)
        if self.startup.self_test.failed and why is None:
            self._table.reload_static(keep=False)

    @property
    def at_rest(self) -> bool:
        """Whether neither a probe nor the self-test nor the startup profile runs."""
        probing = self._probe is not None and self._probe.running
        return not (probing or self.startup.running)

    def _usable_k(self) -> frozenset[int]:
        """Every K that a step may have; empty where K cannot change."""
        return frozenset() if self._obstacles.live_tuning else self._table.limits.usable

    def _overlaid(self) -> list[int | None]:
        return [overlay.k_in_force if overlay else None for overlay in self._overlays()]

    def _overlays(self) -> tuple[Probe | None, ...]:
        return self._probe, *self.startup.probes

    def _end_probe(self, reason: ProbeReason) -> None:
        self._probe = self._probe.ended(reason) if self._probe else None

    def _install(self) -> None:
        choose = self.fast_loop.choose if self.fast_loop.active else None
        self._table.install(self._control.pushed_schedule, self._overlays(), choose)

    def _disable_tuning(self, error: Exception) -> None:
        """Without the hook no lease could end, so the pushed schedule ends and no push is accepted again."""
        consequence = "live tuning is disabled, the engine continues to serve"
        self._obstacles.live_tuning = why = self._obstacles.failed("the step hook", error, consequence)
        self._control = replace(self._control, lease_ends_at=None)
        self.fast_loop.disable(why)
        self._end_probe(ProbeReason.LEASE_LAPSED)
        self.startup.stop()
        # The step must continue even where the schedule cannot be written.
        with suppress(Exception):
            self._install()
