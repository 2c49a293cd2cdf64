"""What turns windows into tables: the interface, Outrider's law, and the fixed answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from outrider.tuning.cost_model import next_cost_model
from outrider.tuning.decision import Decision, Probe, Speedup
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_lab.engines.fleet import Launch
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Row, Schedule


@dataclass(frozen=True, slots=True)
class Action:
    """What a tuner wants from now on."""

    schedule: Schedule
    probe: Probe | None = None
    speedup: Speedup | None = None
    cost_model: CostModel | None = None  # for the fast loop of the engines; None: the schedule runs


class Tuner(Protocol):
    """One pupil of the comparison. It keeps its own state between ticks."""

    @property
    def launch(self) -> Launch:
        """What it wants of the engines before they start."""
        ...

    def begin(self) -> Action:
        """Before anything was measured."""
        ...

    def tick(self, observations: Sequence[Observation], now: float) -> Action:
        """After each interval. `now` in seconds from the start."""
        ...


def windows(observations: Sequence[Observation]) -> list[Window]:
    """The windows with traffic."""
    return [o for o in observations if isinstance(o, Window) and o.request_steps > 0]


class ScheduleRule(ABC):
    """A policy that changes its schedule and wants nothing else."""

    schedule: Schedule
    launch = Launch()

    def begin(self) -> Action:
        """The first schedule."""
        return Action(self.schedule)

    def tick(self, observations: Sequence[Observation], now: float) -> Action:
        """The schedule after these observations."""
        self.follow(windows(observations), now)
        return Action(self.schedule)

    @abstractmethod
    def follow(self, seen: Sequence[Window], now: float) -> None:
        """Change the schedule by the windows with traffic."""


class Law:
    """`outrider`: the tuner, as the operator runs it.

    teaches: push a cost model, so that engines choose K at each step; else the schedule alone.
    step_times: what the engines measured of themselves before they served.
    verification: of the engines' launch.
    """

    def __init__(
        self,
        policy: Policy,
        static: Schedule,
        *,
        teaches: bool = True,
        step_times: StepTimeProfile | None = None,
        verification: AdaptiveVerification | None = None,
    ) -> None:
        self._policy, self._step_times = policy, step_times
        self.launch = Launch(verification=verification)
        self._teaches = teaches
        self._cost_model: CostModel | None = None
        self._state = TunerState.start(static, policy)
        self.decisions: list[Decision] = []

    def begin(self) -> Action:
        """Return the first push: the static schedule, and the cost model of what engines measured."""
        decision = self._decide((), 0.0)
        if self._teaches:
            self._cost_model = next_cost_model(None, decision)
        return Action(self._state.schedule, cost_model=self._cost_model)

    def tick(self, observations: Sequence[Observation], now: float) -> Action:
        """One decision."""
        decision = self._decide(observations, now)
        self._state = decision.state
        self.decisions.append(decision)
        if self._teaches:
            self._cost_model = next_cost_model(self._cost_model, decision)
        return Action(decision.schedule, decision.probe, decision.speedup, self._cost_model)

    def _decide(self, observations: Sequence[Observation], now: float) -> Decision:
        return decide(
            TickContext(observations, self._state, policy=self._policy, now=now, step_times=self._step_times)
        )


class Fixed:
    """`static:K`, `hand`, `fast-loop` and `adaptive`: one answer for ever."""

    def __init__(
        self,
        schedule: Schedule,
        cost_model: CostModel | None = None,
        verification: AdaptiveVerification | None = None,
    ) -> None:
        self._action = Action(schedule, cost_model=cost_model)
        self.launch = Launch(verification=verification)

    def begin(self) -> Action:
        """The answer."""
        return self._action

    def tick(self, observations: Sequence[Observation], now: float) -> Action:  # noqa: ARG002
        """The same again."""
        return self._action


class Oracle:
    """`oracle`: knows the best single K of every phase, and when it begins."""

    launch = Launch()

    def __init__(self, best: Mapping[float, int]) -> None:
        """best: K by the second at which its phase begins."""
        self._best = dict(sorted(best.items()))

    @property
    def changes_at(self) -> Sequence[float]:
        """Seconds at which it wants to be asked besides the ticks."""
        return tuple(self._best)

    def begin(self) -> Action:
        """The best K of the first phase."""
        return self._at(0.0)

    def tick(self, observations: Sequence[Observation], now: float) -> Action:  # noqa: ARG002
        """The best K of this phase."""
        return self._at(now)

    def _at(self, now: float) -> Action:
        begun = [k for at, k in self._best.items() if at <= now + 1e-9]
        return Action(Schedule.constant(begun[-1]))


def hand_table(candidates: Sequence[int]) -> Schedule:
    """Return the rule of thumb: 5 up to 8 requests, 3 up to 32, 0 above; with allowed K only."""
    rows = ((8, 5), (32, 3), (None, 0))
    return Schedule(tuple(Row(size, at_most(k, candidates)) for size, k in rows)).merged()


def at_most(k: int, candidates: Sequence[int]) -> int:
    """The largest candidate <= k; the smallest one if there is none."""
    return max((c for c in candidates if c <= k), default=min(candidates))
