"""The fast loop of one engine core: it chooses K of each step by what the last drafts gave.

`outrider_protocol.fast_loop` has the rule. This module gives it the pushed cost model and the counts of each
step, answers vLLM's lookup, and drops what must not run. All of it runs on the engine core's thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from outrider_engine.control.push import Limits
from outrider_engine.counting.measure import MAX_STEPS_IN_FLIGHT, Step
from outrider_protocol.agreement import Agreement
from outrider_protocol.control_api import Push
from outrider_protocol.cost_model import CostModel
from outrider_protocol.engine_state import FastLoopWire, Inactive, StepsOfK
from outrider_protocol.fast_loop import FastLoop


def no_fast_loop(reason: str) -> FastLoopWire:
    """The fast loop of an engine that cannot have one."""
    return FastLoopWire(
        possible=False,
        reason=reason,
        revision="",
        active=False,
        inactiveReason=Inactive.IMPOSSIBLE.value,
        inactiveDetail=reason,
        numSpeculativeTokens=None,
        lastChange=None,
        changes={},
        looks=0,
        lookSeconds=0.0,
        steps=[],
        survival=None,
        hookSeconds=0.0,
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """What the fast loop chose for one step. ``look``: it drafts only to see the acceptance."""

    k: int
    look: bool


class FastLoopChooser:
    """The fast loop of one engine core, active or not.

    running_contexts: computed tokens of each running request.
    obstacle: why this engine takes no cost model; None where it does.
    revision: of this launch, see `outrider_protocol.cost_model.launch_revision`.
    failed: takes the error of a call that failed. From then on the schedule decides.
    drafts_ahead: a step drafts what the next one verifies. False: it verifies its own drafts.
    """

    def __init__(
        self,
        running_contexts: Callable[[], list[int]],
        *,
        obstacle: str | None,
        revision: str,
        failed: Callable[[Exception], None],
        drafts_ahead: bool = True,
    ) -> None:
        self.hook_seconds = 0.0
        """Time that the fast loop took inside of steps."""
        self.limited: Sequence[int] = ()
        """By position, the requests of the latest step whose K limit leaves it out."""
        self._running_contexts = running_contexts
        self._obstacle = obstacle
        self._revision = revision
        self._failed = failed
        self._off: _Off | None = _Off(Inactive.NO_COST_MODEL)
        self._usable: frozenset[int] = frozenset()
        self._loop: FastLoop | None = None
        self._agreement: Agreement | None = None
        self._dropped: tuple[CostModel, str] | None = None
        self._drafts_ahead = drafts_ahead
        self._flow = _Flow(drafts_ahead)
        self._sums = _Sums()

    @property
    def active(self) -> bool:
        """Whether the fast loop chooses K."""
        return self._off is None and self._obstacle is None

    def take(self, push: Push, limits: Limits) -> None:
        """Use the cost model of an accepted push, or none where it has none that this engine can use."""
        was_active, self._off, model = self.active, self._why_not(push, limits), push.cost_model
        if not (was_active and self.active):
            self._flow = _Flow(self._drafts_ahead)
        if self._off is not None or model is None:
            return
        self._usable = limits.usable
        if self._loop is None:
            running = min(max(1, len(self._running_contexts())), limits.max_num_seqs)
            self._loop = FastLoop(model, k=push.schedule.dense(limits.max_num_seqs)[running])
        elif self._loop.model != model:
            self._loop.use(model)
            self._agreement = None
        self._agreement = self._agreement or Agreement(model)

    def stop(self, reason: Inactive, detail: str | None = None) -> None:
        """Let the schedule decide until the next push."""
        if self._off is None:
            self._off, self._flow = _Off(reason, detail), _Flow(self._drafts_ahead)

    def disable(self, obstacle: str) -> None:
        """Let the schedule decide from here on."""
        self._obstacle = obstacle

    def choose(self, batch: int, otherwise: int) -> int:
        """K of the step that vLLM schedules.

        batch: its number of requests. otherwise: K of the schedule.
        """
        loop = self._loop
        if loop is None or not self.active:
            return otherwise
        began = perf_counter()
        try:
            looks, changes = loop.looks, loop.changes
            context = sum(self._running_contexts())
            k = loop.choose(batch, context, self._flow.new_requests, self.limited)
            if k not in self._usable:
                raise ValueError(f"it chose K={k}, and this engine can run {sorted(self._usable)}")
            if loop.changes != changes:
                self._sums.changes[loop.reason.value] += 1
            self._flow.choice = Choice(k, look=loop.looks != looks)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self._failed(error)
            return otherwise
        self.hook_seconds += perf_counter() - began
        return k

    def scheduled(self, key: object, *, k: int, decoding: int, new_requests: int) -> None:
        """A step was scheduled.

        key: the object by which `verified` finds the step again.
        k: that the step drafts, also where a probe or the schedule gave it.
        decoding: requests that may have drafts to verify, without those whose K limit leaves some out.
        new_requests: that are in their first step.
        """
        self._flow.scheduled(key, k=k, decoding=decoding, new_requests=new_requests)

    def verified(self, key: object, *, drafted: Sequence[int], accepted: Sequence[int]) -> Choice | None:
        """A step has its result; what the fast loop chose for it, None where something else did.

        drafted, accepted: tokens per position that this step verified.
        """
        loop, step = self._loop, self._flow.ended(key)
        if loop is None or step is None:
            return None
        first = drafted[0] if drafted else 0
        # A drafter that searches the text has no draft for some of them, which counts as rejected.
        requests = max(step.decoding, first) if self._drafts_ahead else first
        if step.asked:
            loop.count(step.asked, requests, accepted)
        return step.choice

    def measured(self, step: Step, choice: Choice | None) -> None:
        """The engine time of a step is known, perhaps some steps later."""
        if choice is not None:
            self._sums.add(step, choice)
        agreement, loop = self._agreement, self._loop
        # The cost model has no step that computes prompts, nor the one after a change of K.
        if agreement is None or loop is None or not self.active or step.mixed or step.prefill_tokens:
            return
        agreement.add(step.num_speculative_tokens, step.batch_size, step.context_tokens, step.seconds)
        if agreement.broken is not None:
            self._dropped = loop.model, agreement.broken
            self.stop(Inactive.DISAGREES, agreement.broken)

    def to_wire(self) -> FastLoopWire:
        """The form in which the state shows it."""
        if self._obstacle is not None:
            wire = no_fast_loop(self._obstacle)
        else:
            wire = no_fast_loop("")
            wire["possible"], wire["reason"], wire["active"] = True, None, self.active
            wire["inactiveReason"] = self._off.reason.value if self._off else None
            wire["inactiveDetail"] = self._off.detail if self._off else None
        wire["revision"], wire["hookSeconds"] = self._revision, self.hook_seconds
        wire["changes"], wire["steps"] = dict(self._sums.changes), self._sums.steps_of_k()
        wire["lookSeconds"] = self._sums.look_seconds
        if self._loop is not None:
            wire["looks"] = self._loop.looks
            if self.active:
                wire["numSpeculativeTokens"] = self._loop.k
                wire["lastChange"] = self._loop.reason.value
                wire["survival"] = list(self._loop.survival)
        return wire

    def _why_not(self, push: Push, limits: Limits) -> _Off | None:
        model, usable = push.cost_model, sorted(limits.usable)
        if push.cost_model_fault is not None:
            return _Off(Inactive.REFUSED, push.cost_model_fault)
        if model is None:
            return _Off(Inactive.NO_COST_MODEL)
        if model.revision != self._revision:
            detail = f"the cost model is of the launch {model.revision}, this engine of {self._revision}"
            return _Off(Inactive.REFUSED, detail)
        if missing := sorted(set(model.candidates) - limits.usable):
            return _Off(Inactive.REFUSED, f"the cost model has K={missing}, and this engine can run {usable}")
        if self._dropped is not None and self._dropped[0] == model:
            return _Off(Inactive.DISAGREES, self._dropped[1])
        return None


@dataclass(frozen=True, slots=True)
class _Off:
    reason: Inactive
    detail: str | None = None


@dataclass(slots=True)
class _Scheduled:
    """A step without a result yet.

    asked: the K of the drafts that it verifies; None where that is not known.
    decoding: requests that were to have such drafts.
    """

    key: object
    asked: int | None
    decoding: int
    choice: Choice | None


class _Flow:
    """Which drafts a step verifies: those of the step before it, also where steps overlap, or its own."""

    def __init__(self, drafts_ahead: bool) -> None:
        self._drafts_ahead = drafts_ahead
        self.new_requests = 0
        """Number in the latest step."""
        self.choice: Choice | None = None
        """For the step that vLLM schedules."""
        self._asked: int | None = None
        self._steps: deque[_Scheduled] = deque(maxlen=MAX_STEPS_IN_FLIGHT)

    def scheduled(self, key: object, *, k: int, decoding: int, new_requests: int) -> None:
        # A step drafts less than was chosen where its requests may verify no more.
        choice = self.choice if self.choice and self.choice.k == k else None
        own = k if decoding else None
        asked = self._asked if self._drafts_ahead else own
        self._steps.append(_Scheduled(key, asked, decoding, choice))
        self._asked, self.choice, self.new_requests = k, None, new_requests

    def ended(self, key: object) -> _Scheduled | None:
        """The step of this key. Steps before it never had a result, and are dropped."""
        if not any(step.key is key for step in self._steps):
            return None
        while (step := self._steps.popleft()).key is not key:
            pass
        return step


class _Sums:
    """What the fast loop did since the engine started."""

    def __init__(self) -> None:
        self.changes: Counter[str] = Counter()
        """Changes of K by reason."""
        self.look_seconds = 0.0
        """Engine time of the steps that looked."""
        self._steps: Counter[int] = Counter()
        self._seconds: dict[int, float] = defaultdict(float)

    def add(self, step: Step, choice: Choice) -> None:
        self._steps[choice.k] += 1
        self._seconds[choice.k] += step.seconds
        if choice.look:
            self.look_seconds += step.seconds

    def steps_of_k(self) -> list[StepsOfK]:
        return [
            StepsOfK(numSpeculativeTokens=k, steps=steps, seconds=self._seconds[k])
            for k, steps in sorted(self._steps.items())
        ]
