"""The self-test and the startup profile of one engine core, request by request as the front end makes them.

Runs on the engine core's thread, between steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from outrider_engine.control.engine_facts import Abilities, EngineFacts
from outrider_engine.control.lookup import LookupTable
from outrider_engine.control.probe import Probe
from outrider_engine.control.self_test import SelfTest, Trial, TrialResult
from outrider_engine.control.startup_profile import StartupProfile, Visit
from outrider_engine.counting.measure import Meter, Step
from outrider_protocol.engine_state import SelfTestState, StepTime


class StartupRequests:
    """What an engine core tests and measures before it serves.

    obstacle: why requests of the plugin's own would show nothing; None where they do.
    judged: is called once the self-test has a verdict.
    changed: is called when steps may have another K.
    clock: monotonic seconds.
    """

    def __init__(
        self,
        facts: EngineFacts,
        abilities: Abilities,
        table: LookupTable,
        *,
        obstacle: Callable[[], str | None],
        judged: Callable[[], None],
        changed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.self_test = SelfTest(faults=abilities.refused_k)
        self.profile = StartupProfile()
        self.meter: Meter | None = None
        """Counts the steps of the startup profile, while it is measured."""
        self.step_times: list[StepTime] = []
        self._facts, self._table, self._clock = facts, table, clock
        self._profile_obstacle = abilities.profile
        self._obstacle, self._judged, self._changed = obstacle, judged, changed

    @property
    def running(self) -> bool:
        """Whether a request of the self-test or a visit of the startup profile runs."""
        return self.self_test.state is SelfTestState.RUNNING or self.profile.visiting

    @property
    def probes(self) -> tuple[Probe | None, Probe | None]:
        """The K that the self-test and the startup profile lay over the schedule."""
        return self.self_test.trial, self.profile.probe

    def after(self, step: Step) -> None:
        """A step was counted."""
        self.self_test, self.profile = self.self_test.after(step), self.profile.after(step)

    def pass_time(self, now: float) -> None:
        """Close what has taken too long."""
        before = self.self_test
        self.self_test, self.profile = before.at(now), self.profile.at(now)
        if self.self_test is not before:
            self._judged()

    def stop(self) -> None:
        """Return to the schedule, in the middle of a request."""
        self.self_test, self.profile = replace(self.self_test, trial=None), self.profile.left()

    def begin_self_test(self) -> list[Trial]:
        """The requests of the self-test, in order; none when it cannot run or has begun before."""
        self.self_test, trials = self.self_test.begun(
            self._table.limits.captured, obstacle=self._obstacle(), now=self._clock()
        )
        return trials

    def begin_trial(self, k: int) -> None:
        """Let the next request go from the minimum K to ``k`` and back."""
        self.self_test = self.self_test.with_trial(k, self._clock())
        self._changed()

    def end_trial(self, result: TrialResult) -> None:
        """Judge the request by its tokens or its fault, and by the steps that were counted."""
        # Tokens of a simulated engine prove nothing.
        tied = result["tied"] or self._facts.simulated is not None
        self.self_test = self.self_test.judged({**result, "tied": tied})
        self._changed()

    def end_self_test(self, fault: str | None) -> None:
        """Close the self-test. From here on no schedule has a K that failed."""
        self.self_test = self.self_test.closed(fault, now=self._clock())
        self._judged()
        self._changed()

    def begin_profile(self, seconds: float) -> list[Visit]:
        """The visits, in order; none when no profile can be measured or one has begun before."""
        self.profile, visits = self.profile.begun(
            self._table.limits.usable,
            max_num_seqs=self._facts.max_num_seqs,
            room=self._facts.room,
            seconds=seconds,
            obstacle=self._profile_obstacle or self._obstacle(),
            now=self._clock(),
        )
        if visits:
            self.meter = Meter(
                self._facts.max_num_seqs,
                self._facts.num_speculative_tokens,
                drafts_ahead=self._facts.drafts_ahead,
            )
        return visits

    def begin_visit(self, visit: Visit) -> None:
        """Let steps of this batch size run one K after the other."""
        self.profile = self.profile.with_visit(visit["batchSize"], visit["contextTokens"], self._clock())
        self._changed()

    def end_visit(self) -> None:
        """Return to the schedule."""
        self.profile = self.profile.left()
        self._changed()

    def close_profile(self, fault: str | None) -> None:
        """Close the startup profile. Its step times never change from here on."""
        self.profile = self.profile.closed(fault, now=self._clock())
        self.step_times, self.meter = self.profile.step_times(), None
