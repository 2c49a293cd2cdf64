"""Requests: how many, how long, and how well their text can be drafted."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, islice
from math import exp

import numpy as np

DIFFICULTIES = ((0.25, 0.6), (0.5, 1.0), (0.25, 1.6))
"""(share, exponent): a quarter of the requests is easier to draft than the rest, a quarter harder."""
LENGTH_SPREAD = 0.5
"""Standard deviation of the logarithm of prompt and output lengths."""
EXPONENTS = tuple(exponent for _, exponent in DIFFICULTIES)
ALIKE = (1.0,) * len(DIFFICULTIES)
"""Exponents of requests that are all as hard to draft as one another."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Open arrivals that come and go; the mean rate stays that of the phase."""

    on_seconds: float  # mean, exponential
    off_seconds: float
    off_factor: float  # rate while off, relative to the mean rate


@dataclass(frozen=True, slots=True)
class Traffic:
    """One phase of a trace."""

    seconds: float
    acceptance: tuple[float, ...]  # of position j, given that all before it were accepted
    rate: float | None = None  # requests per second on the whole model; None: closed
    streams: int | None = None  # closed loops per pod; None: open
    prompt: float = 400.0  # tokens, median
    output: float = 200.0
    burst: Burst | None = None
    drift_to: float = 1.0  # the acceptance is multiplied by a factor that goes from 1 to this in the phase
    label: str = ""
    length_spread: float = LENGTH_SPREAD
    exponents: tuple[float, ...] = EXPONENTS
    """On the acceptance, by difficulty."""
    cached: float = 0.0
    """Tokens at the beginning of each prompt that are in the cache already."""
    away_seconds: float = 0.0
    away_steps: float = 0.0
    """Together: until the next request of a closed loop arrives, which then waits for a step's end."""
    anew: bool = False
    """Clients of the phase before are cut off where this one begins."""
    by_chance: bool = False
    """The closed loops of all pods are dealt over them by chance, and not evenly."""

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.streams is None):
            raise ValueError("either a rate or a number of streams")

    def probability(self, difficulty: int, scale: float) -> tuple[float, ...]:
        """Acceptance of each position for one kind of request."""
        exponent = self.exponents[difficulty]
        return tuple(min(0.999, (a * scale) ** exponent) for a in self.acceptance)


@dataclass(slots=True)
class Request:
    """One request on its way through an engine."""

    arrived_at: float  # seconds
    prompt: int  # tokens
    output: int  # tokens wanted, at least 2
    kind: int  # index of its class of acceptance
    closed: bool = False  # of a closed loop
    to_prefill: float = 0.0  # prompt tokens that are not in the cache
    cached: float = 0.0  # prompt tokens that were in the cache before it came
    target: float = 0.0  # reading of its class's clock at which it has all its tokens
    left: float = 0.0  # tokens still to come after a preemption
    state: int = 0  # 0 waiting or in prefill, 1 decoding, 2 done
    entry: int = 0  # which entry of the class's heap is its own


@dataclass(frozen=True)
class Trace:
    """Phases one after another, for some pods. The same seed gives the same requests to every policy."""

    phases: tuple[Traffic, ...]
    pods: int = 1
    seed: int = 0

    @cached_property
    def starts(self) -> tuple[float, ...]:
        """Seconds at which phases begin, and the end."""
        return (0.0, *accumulate(p.seconds for p in self.phases))

    @property
    def horizon(self) -> float:
        """Seconds."""
        return self.starts[-1]

    def phase_at(self, at: float) -> int:
        """Index of the phase at a time."""
        return next((i for i in range(len(self.phases)) if at < self.starts[i + 1]), len(self.phases) - 1)

    def kind(self, phase: int, difficulty: int) -> int:
        """Index of the class of acceptance of such requests."""
        return phase * len(DIFFICULTIES) + difficulty

    def drift(self, phase: int, at: float) -> float:
        """Factor on the acceptance of a phase's requests."""
        into = (at - self.starts[phase]) / self.phases[phase].seconds
        return 1.0 + (self.phases[phase].drift_to - 1.0) * min(1.0, max(0.0, into))

    @cached_property
    def loops(self) -> tuple[tuple[int, ...], ...]:
        """Closed loops of each phase, by pod."""
        rng = np.random.default_rng((self.seed, 7))
        return tuple(_dealt(phase, self.pods, rng) for phase in self.phases)

    @cached_property
    def arrivals(self) -> tuple[tuple[Request, ...], ...]:
        """Open arrivals, dealt out to the pods in turn."""
        rng = np.random.default_rng((self.seed, 1))
        times: list[float] = []
        for phase, start, end in zip(self.phases, self.starts, self.starts[1:], strict=False):
            if phase.rate is not None:
                times += _open_times(phase, phase.rate, start, end, rng)
        draws = _Draws(self, np.random.default_rng((self.seed, 2)))
        requests = [draws.request(at) for at in times]
        return tuple(tuple(requests[pod :: self.pods]) for pod in range(self.pods))


def _dealt(phase: Traffic, pods: int, rng: np.random.Generator) -> tuple[int, ...]:
    streams = phase.streams or 0
    if not phase.by_chance:
        return (streams,) * pods
    return tuple(int(count) for count in rng.multinomial(streams * pods, [1 / pods] * pods))


def _open_times(
    phase: Traffic, rate: float, start: float, end: float, rng: np.random.Generator
) -> list[float]:
    """Poisson, with two rates where there are bursts."""
    times: list[float] = []
    on_rate = off_rate = rate
    burst = phase.burst
    if burst is not None:
        off_rate = rate * burst.off_factor
        share = burst.on_seconds / (burst.on_seconds + burst.off_seconds)
        on_rate = (rate - (1 - share) * off_rate) / share
    now, on = start, True
    while now < end:
        length = end - now
        if burst is not None:
            length = float(rng.exponential(burst.on_seconds if on else burst.off_seconds))
        until = min(end, now + length)
        count = int(rng.poisson((on_rate if on else off_rate) * (until - now)))
        times += sorted(float(t) for t in rng.uniform(now, until, count))
        now, on = until, not on
    return times


class _Draws:
    """Lengths and kinds of requests, in the order in which they are asked for."""

    def __init__(self, trace: Trace, rng: np.random.Generator) -> None:
        self._trace, self._rng = trace, rng
        self._pool: deque[tuple[float, float, float]] = deque()

    def request(self, at: float) -> Request:
        if not self._pool:
            normals = self._rng.standard_normal((256, 2))
            uniform = self._rng.random(256)
            self._pool.extend(
                (float(a), float(b), float(u)) for (a, b), u in zip(normals, uniform, strict=True)
            )
        prompt, output, share = self._pool.popleft()
        index = self._trace.phase_at(at)
        phase = self._trace.phases[index]
        length = max(8, round(phase.prompt * exp(prompt * phase.length_spread)))
        tokens = max(2, round(phase.output * exp(output * phase.length_spread)))
        kind = self._trace.kind(index, _difficulty(share))
        cached = min(phase.cached, length - 1.0)
        return Request(at, length, tokens, kind, to_prefill=length - cached, cached=cached)


def _difficulty(uniform: float) -> int:
    total = 0.0
    for index, (share, _) in enumerate(DIFFICULTIES):
        total += share
        if uniform < total:
            return index
    return len(DIFFICULTIES) - 1


class Source:
    """The requests of one pod: open ones that were dealt to it, and closed loops."""

    def __init__(self, trace: Trace, pod: int) -> None:
        self._trace, self._pod = trace, pod
        self._open = deque(trace.arrivals[pod])
        self._draws = _Draws(trace, np.random.default_rng((trace.seed, 3, pod)))
        self._loops = 0  # closed requests under way, or on their way back
        self._away: deque[float] = deque()  # when those come back
        self._changes = deque(trace.starts[:-1])

    def next_at(self) -> float:
        """Seconds of the next arrival that is known now; infinite without one."""
        upcoming = self._open[0].arrived_at if self._open else float("inf")
        return min([upcoming, *islice(self._away, 1), *islice(self._changes, 1)])

    def begins_anew(self, now: float) -> bool:
        """Whether a phase begins that cuts off what is under way."""
        return bool(self._changes) and self._changes[0] <= now and self._phase(now).anew

    def take(self, now: float) -> Sequence[Request]:
        """Everything that has arrived."""
        taken: list[Request] = []
        while self._open and self._open[0].arrived_at <= now:
            taken.append(_fresh(self._open.popleft()))
        while self._changes and self._changes[0] <= now:
            self._changes.popleft()
            if self._phase(now).anew:
                self._loops = 0
                self._away.clear()
            taken += self._refill(now)
        while self._away and self._away[0] <= now:
            self._away.popleft()
            self._loops -= 1
            taken += self._refill(now)
        return taken

    def finished(self, request: Request, now: float, step_seconds: float) -> Sequence[Request]:
        """The successors of a request that is done, of a closed loop whose client is never away."""
        if not request.closed:
            return ()
        phase = self._phase(now)
        away = phase.away_seconds + phase.away_steps * step_seconds
        if away:
            self._away.append(max(now + away, self._away[-1] if self._away else 0.0))
            return ()
        self._loops -= 1
        return self._refill(now)

    def _refill(self, now: float) -> list[Request]:
        streams = self._trace.loops[self._trace.phase_at(now)][self._pod]
        missing = max(0, streams - self._loops)
        self._loops += missing
        requests = [self._draws.request(now) for _ in range(missing)]
        for request in requests:
            request.closed = True
        return requests

    def _phase(self, now: float) -> Traffic:
        return self._trace.phases[self._trace.phase_at(now)]


def _fresh(request: Request) -> Request:
    """A copy: the trace is shared by many runs."""
    return replace(request)
