"""Kinds of traffic. Loads, texts and lengths of each run are drawn from its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, pi, sin

import numpy as np

from outrider_lab.engines.event_engine import Limits
from outrider_lab.engines.event_fleet import Plant
from outrider_lab.scenarios import EventScenario
from outrider_lab.traffic.requests import ALIKE, Burst, Trace, Traffic
from tests.bench.traffic.engines import Engine

TICK_SECONDS = 10.0
"""Default of the operator."""
POSITIONS = 7
"""Positions of a draft for which a text has an acceptance."""
REQUEST_SECONDS = 12.0
"""Roughly how long an answer takes on an engine with a middle load; lengths of answers follow from it."""
LOW_ENTROPY, HIGH_ENTROPY = (0.82, 0.92), (0.35, 0.55)
"""Ranges of the acceptance of the first position. SPEED-Bench (arXiv 2604.09557) has texts of low and of high
entropy; the ranges are this project's choice."""
ALL_ENTROPY = (0.35, 0.92)
TWO_CLASSES = (0.25, 0.25, 4.0)
"""Exponents on the acceptance: three quarters of the requests are easy to draft, a quarter is hard."""
SLOW = 1.8
"""Factor on the step times of the slow pod."""

Ranges = tuple[float, float]


@dataclass(frozen=True)
class Draw:
    """What a kind is made of: an engine, and chance."""

    engine: Engine
    rng: np.random.Generator

    def between(self, low: float, high: float) -> float:
        """Uniform."""
        return float(self.rng.uniform(low, high))

    def text(self, ranges: Ranges = ALL_ENTROPY) -> tuple[float, ...]:
        """Acceptance by position, given that the position before was accepted."""
        first, decay = self.between(*ranges), self.between(0.9, 1.0)
        return tuple(first * decay**position for position in range(POSITIONS))

    def streams(self, low: float = 1.0, high: float | None = None) -> int:
        """Log-uniform. high: None stands for the most that the engine knows."""
        return max(1, round(exp(self.between(log(low), log(high or self.engine.most)))))

    def tokens(self) -> float:
        """Answer tokens, median."""
        batch = max(1, self.engine.most // 4)
        return REQUEST_SECONDS / self.engine.step.seconds(batch, 0, 1000.0 * batch)

    def rate(self, batch: int) -> float:
        """Requests per second that keep about so many requests busy without speculation."""
        return batch / self.engine.step.seconds(batch, 0, 1000.0 * batch) / self.tokens()

    def closed(self, seconds: float, streams: int, text: tuple[float, ...], **more: object) -> Traffic:
        """A closed load."""
        label = f"{streams} streams, {text[0]:.2f} accepted"
        base = Traffic(seconds, text, streams=streams, output=self.tokens(), label=label)
        return replace(base, **more)  # type: ignore[arg-type]


Phases = Sequence[Traffic]


def _stationary(draw: Draw) -> Phases:
    return [draw.closed(240.0, draw.streams(), draw.text())]


def _bursts(draw: Draw) -> Phases:
    burst = Burst(on_seconds=draw.between(10, 40), off_seconds=draw.between(10, 40), off_factor=0.1)
    phases = []
    for part in (0.15, 0.4):
        rate = draw.rate(max(1, round(part * draw.engine.most)))
        base = Traffic(120.0, draw.text(), rate=rate, output=draw.tokens(), burst=burst)
        phases.append(replace(base, label=f"{rate:.2f} requests/s"))
    return phases


def _ramps(draw: Draw) -> Phases:
    up = sorted({max(1, round(draw.engine.most ** (step / 5))) for step in range(6)})
    text = draw.text()
    return [draw.closed(20.0, streams, text) for streams in (*up, *up[-2::-1])]


def _diurnal(draw: Draw) -> Phases:
    text, begin = draw.text(), draw.between(0, 2 * pi)
    level = [0.5 + 0.5 * sin(begin + 2 * pi * step / 12) for step in range(12)]
    return [draw.closed(30.0, max(1, round(draw.engine.most**part)), text) for part in level]


def _alternating(draw: Draw) -> Phases:
    turn = float(draw.rng.choice([15.0, 30.0, 60.0]))
    streams, texts = draw.streams(2), (draw.text(LOW_ENTROPY), draw.text((0.1, 0.4)))
    return [draw.closed(turn, streams, texts[place % 2]) for place in range(round(240.0 / turn))]


def _alternating_loads(draw: Draw) -> Phases:
    """Of one text. The change of K that they need comes from the batch alone."""
    turn, text, most = float(draw.rng.choice([15.0, 30.0, 60.0])), draw.text(), draw.engine.most
    loads = draw.streams(1.0, max(2.0, most / 8)), draw.streams(most / 3)
    return [draw.closed(turn, loads[place % 2], text) for place in range(round(240.0 / turn))]


def _two_classes(draw: Draw) -> Phases:
    return [
        draw.closed(120.0, draw.streams(2), draw.text((0.5, 0.8)), exponents=TWO_CLASSES) for _ in range(2)
    ]


def _long_contexts(draw: Draw) -> Phases:
    streams, text = draw.streams(2, min(16.0, draw.engine.most)), draw.text()
    prompts = (400.0, draw.between(6000, 12000), 400.0)
    return [
        draw.closed(80.0, streams, text, prompt=tokens, cached=0.9 * tokens, label=f"{tokens:.0f} tokens")
        for tokens in prompts
    ]


def _three_loads(draw: Draw) -> Phases:
    return [draw.closed(90.0, draw.streams(), draw.text()) for _ in range(3)]


def _entropy(ranges: Ranges) -> Callable[[Draw], Phases]:
    """SPEED-Bench's throughput part: many streams of one kind of text."""

    def phases(draw: Draw) -> Phases:
        return [draw.closed(120.0, draw.engine.most, draw.text(ranges), exponents=ALIKE) for _ in range(2)]

    return phases


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of traffic, and how its engines are watched."""

    phases: Callable[[Draw], Phases]
    slowness: tuple[float, ...] = (1.0,)  # one per pod
    scrape_seconds: float = 5.0


KINDS: Mapping[str, Kind] = {
    "stationary": Kind(_stationary),
    "bursts": Kind(_bursts),
    "ramps": Kind(_ramps),
    "diurnal": Kind(_diurnal),
    "alternating text": Kind(_alternating),
    "alternating loads": Kind(_alternating_loads),
    "two classes at once": Kind(_two_classes),
    "long contexts": Kind(_long_contexts),
    "a slow pod of three": Kind(_three_loads, slowness=(1.0, 1.0, SLOW)),
    "four pods": Kind(_three_loads, slowness=(1.0,) * 4),
    "scrapes of 15 s": Kind(_three_loads, scrape_seconds=15.0),
    "scrapes of 30 s": Kind(_three_loads, scrape_seconds=30.0),
    "scrapes of 60 s": Kind(_three_loads, scrape_seconds=60.0),
    "low entropy": Kind(_entropy(LOW_ENTROPY)),
    "high entropy": Kind(_entropy(HIGH_ENTROPY)),
}
"""Where a name has no interval of scrapes, it is 5 s."""


def scenario(name: str, engine: Engine, seed: int) -> EventScenario:
    """One run of a kind on an engine. Equal seeds give equal traces, whatever an idle drafter costs."""
    kind = KINDS[name]
    bare = replace(engine, step=engine.step.without_drafter())
    phases = tuple(kind.phases(Draw(bare, np.random.default_rng((seed, 11)))))
    plant = Plant(
        engine.step,
        Limits(max_num_seqs=engine.most),
        slowness=kind.slowness,
        scrape_interval=kind.scrape_seconds,
    )
    trace = Trace(phases, pods=len(kind.slowness), seed=seed % 2**32)
    return EventScenario(
        f"{name} on {engine.name}", plant, trace, candidates=engine.candidates, interval=TICK_SECONDS
    )
