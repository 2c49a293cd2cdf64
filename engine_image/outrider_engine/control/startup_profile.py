"""The startup profile: step time by batch size, K and context, measured before the engine serves.

A visit keeps one batch of the plugin's own requests at one context and runs every K for a few steps. The
most informative places come first. Every place is visited again while the budget lasts, so a short budget
gives a coarse profile. This is the side of the engine core. Pure: the clock is a parameter. The requests
come from the front end, see `outrider_engine.startup.profiling`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean, median
from typing import TypedDict

from outrider_engine.control.engine_facts import Room
from outrider_engine.control.probe import Probe, start
from outrider_engine.counting.measure import Step
from outrider_protocol.control_api import Fence, ProbeOrder, Slice
from outrider_protocol.engine_state import StepTime, SweepState, SweepWire

SHORT_CONTEXT, DEEP_CONTEXT = 32, 2048  # tokens of a prompt
MIN_DEPTH = 4
"""Minimum ratio of the deep context to the short one; below it the deep one is omitted."""
MAX_PROMPT_TOKENS = 2**17
"""Maximum of all prompts of a visit. With vLLM's default batch of an H200, 1024, half of the cache would be
430,000 tokens: one visit took the 20 s of the profile. The cost model has the slope from smaller ones."""
MAX_TOKENS = 1024
"""Tokens that a request may generate; it is aborted long before."""
STEPS_PER_SLICE = 7
"""The first of them is mixed by the change of K, and does not count."""
MIN_STEPS = 3
"""Minimum for a cell to be reported."""
MAX_ROUNDS = 3
MIN_ERROR = 0.01
"""Minimum relative error. A few steps that agree by chance are not as exact as they look."""
STALL = 3.0
"""A step of so many times the median does not count: something else delayed it."""
_DEVIATIONS_PER_MAD = 1.4826
"""Standard deviation of a normal distribution, in median absolute deviations."""


class Visit(TypedDict):
    """A batch of requests with prompts of ``contextTokens``, each generating up to ``tokens``."""

    batchSize: int
    contextTokens: int
    tokens: int


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One cell; ``context`` is that of the visit, in tokens of its prompts."""

    batch: int
    context: int
    k: int


@dataclass(frozen=True, slots=True)
class Samples:
    """Steps of one cell, by visit. ``contexts``: tokens per request in the cache."""

    runs: tuple[tuple[float, ...], ...] = ()  # seconds of steps that followed each other
    contexts: tuple[float, ...] = ()
    visit: int = 0  # the last one

    @property
    def steps(self) -> int:
        """Number of steps of all visits."""
        return len(self.contexts)

    def with_step(self, step: Step, visit: int) -> Samples:
        """The samples after one more step, of this visit (from 1) to the place."""
        continued = (*self.runs, ()) if visit > self.visit else self.runs
        runs = (*continued[:-1], (*continued[-1], step.seconds))
        return Samples(runs, (*self.contexts, step.context_tokens / step.batch_size), visit)

    def to_wire(self, cell: Cell) -> StepTime:
        """The cell: the median over visits of the mean within each, as a late step shortens the next."""
        middle = median(seconds for run in self.runs for seconds in run)
        kept = [[seconds for seconds in run if seconds < STALL * middle] for run in self.runs]
        seconds = median(fmean(run) for run in kept if run)
        spread = median(abs(seconds - middle) for run in kept for seconds in run) / middle
        return StepTime(
            batchSize=cell.batch,
            numSpeculativeTokens=cell.k,
            contextTokens=round(fmean(self.contexts), 1),
            stepSeconds=seconds,
            error=max(MIN_ERROR, _DEVIATIONS_PER_MAD * spread / self.steps**0.5),
            steps=self.steps,
        )


@dataclass(frozen=True, slots=True)
class StartupProfile:
    """The profile so far. ``probe``: the K of the current visit's batch."""

    state: SweepState = SweepState.SKIPPED
    note: str = "not requested"
    ks: tuple[int, ...] = ()
    began: float = 0.0
    ends_at: float = 0.0
    context: int = 0
    probe: Probe | None = None
    visits: Mapping[tuple[int, int], int] = field(default_factory=dict)
    samples: Mapping[Cell, Samples] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether the profile has begun and not ended."""
        return self.state is SweepState.RUNNING

    @property
    def visiting(self) -> bool:
        """Whether the current visit has parts left."""
        return self.probe is not None and self.probe.running

    def begun(
        self,
        ks: Collection[int],
        *,
        max_num_seqs: int,
        room: Room | None,
        seconds: float,
        obstacle: str | None,
        now: float,
    ) -> tuple[StartupProfile, list[Visit]]:
        """The profile as it begins, and its visits. A second front end gets none."""
        if self.state is not SweepState.SKIPPED or self.began:
            return self, []
        if obstacle is not None or room is None:
            return replace(self, note=obstacle or "this release does not report its cache size"), []
        visits = list(plan(max_num_seqs, room))
        sweep = replace(self, state=SweepState.RUNNING, note="", ks=tuple(sorted(ks)))
        return replace(sweep, began=now, ends_at=now + seconds), visits

    def with_visit(self, batch: int, context: int, now: float) -> StartupProfile:
        """The profile in a visit: steps of this batch size run every K, ascending and descending by turns."""
        if not self.running:
            return self
        before = self.visits.get((batch, context), 0)
        ks = self.ks if before % 2 == 0 else self.ks[::-1]
        slices = tuple(Slice(k, steps=STEPS_PER_SLICE) for k in ks)
        request = ProbeOrder(Fence(0, 0), "sweep", batch, batch, slices, self.ends_at - now)
        visits = {**self.visits, (batch, context): before + 1}
        return replace(self, context=context, probe=start(request, now), visits=visits)

    def after(self, step: Step) -> StartupProfile:
        """The profile after a finished step; a step that computes prompts does not count."""
        probe = self.probe
        if probe is None or not probe.running or step.prefill_tokens:
            return self
        continued = replace(self, probe=probe.after(step))
        k = step.num_speculative_tokens
        if step.mixed or k != probe.k_in_force or not probe.request.contains(step.batch_size):
            return continued
        cell = Cell(step.batch_size, self.context, k)
        known, visit = self.samples.get(cell, Samples()), self.visits[cell.batch, cell.context]
        return replace(continued, samples={**self.samples, cell: known.with_step(step, visit)})

    def at(self, now: float) -> StartupProfile:
        """The profile at this moment: its visit has ended when the budget is spent."""
        return self if self.probe is None else replace(self, probe=self.probe.at(now))

    def left(self) -> StartupProfile:
        """The profile after its visit, complete or not."""
        return replace(self, probe=None)

    def closed(self, fault: str | None, *, now: float) -> StartupProfile:
        """The profile at its end. ``fault``: why the front end could not finish it."""
        if not self.running:
            return self
        found = len(self.step_times())
        parts = [f"{found} cells in {now - self.began:.1f} s"] + ([] if fault is None else [fault])
        state = SweepState.MEASURED if found else SweepState.FAILED
        return replace(self, state=state, probe=None, note="; ".join(parts))

    def to_wire(self) -> SweepWire:
        """The form that the state has."""
        return SweepWire(state=self.state.value, detail=self.note)

    def step_times(self) -> list[StepTime]:
        """The cells so far."""
        enough = ((cell, found) for cell, found in self.samples.items() if found.steps >= MIN_STEPS)
        return [found.to_wire(cell) for cell, found in sorted(enough, key=lambda pair: pair[0])]


def plan(max_num_seqs: int, room: Room) -> Iterable[Visit]:
    """Every visit in order. First come both ends and the middle of the batch sizes at the short context. The
    rest follows by its prompt tokens, so that an expensive visit delays no other one."""
    sizes = in_halves(batch_sizes(max_num_seqs))
    first, rest = sizes[:3], sizes[3:]
    wanted = [(SHORT_CONTEXT, batch) for batch in rest] + [(DEEP_CONTEXT, batch) for batch in sizes]
    places = [(batch, _context(depth, batch, room)) for depth, batch in wanted]
    places.sort(key=lambda place: place[0] * (place[1] or 0))
    for _ in range(MAX_ROUNDS):
        for batch, context in [(batch, _context(SHORT_CONTEXT, batch, room)) for batch in first] + places:
            if context is not None:
                tokens = min(MAX_TOKENS, room.request - context)
                yield Visit(batchSize=batch, contextTokens=context, tokens=tokens)


def batch_sizes(max_num_seqs: int) -> tuple[int, ...]:
    """Batch sizes 1, 2, 4 … and the maximum."""
    powers = (2**power for power in range(max_num_seqs.bit_length()))
    return tuple(sorted({*powers, max_num_seqs}))


def in_halves(places: tuple[int, ...]) -> tuple[int, ...]:
    """The places, reordered: both ends, then the middle of each gap, the widest first."""
    order = [0, len(places) - 1][: len(places)]
    while len(order) < len(places):
        known = sorted(order)
        low, high = max(pairwise(known), key=lambda gap: gap[1] - gap[0])
        order.append((low + high) // 2)
    return tuple(places[index] for index in order)


def _context(wanted: int, batch: int, room: Room) -> int | None:
    """Prompt tokens of a visit: ``wanted``, or the maximum that fits; None if that is too little."""
    # Half of a request's room, and of the cache, is left to what is generated.
    context = min(wanted, room.request // 2, room.cache // (2 * batch), MAX_PROMPT_TOKENS // batch)
    least = SHORT_CONTEXT // 2 if wanted == SHORT_CONTEXT else SHORT_CONTEXT * MIN_DEPTH
    return context if context >= least else None
