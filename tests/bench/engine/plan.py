"""What is driven in which order: static slices between the traces of the policies. Pure."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain

from examples.kit.loads import RAMP_SECONDS, Load
from tests.bench.engine.trace import Trace, loads_of

HAND = "hand"
NONE = "none"
STATIC = "static"
OUTRIDER = "outrider"
PROFILED = "vllm-profile"
TABLES = (HAND, PROFILED)
"""Fixed tables of several rows."""
ON_PROFILES = (PROFILED, "turbospec", "sglang-throughput")
"""Arms that rest on an offline profile; stand-ins alone have one."""
RULES = (
    "acceptance",
    "acceptance-off",
    "length-off",
    "ema",
    "sglang",
    "sglang-throughput",
    "ucb-specstop",
    "turbospec",
    "model",
)
"""Rules that look at measurements; the bench drives them."""
ARMS = (NONE, STATIC, *TABLES, *RULES, OUTRIDER)


class Engine(StrEnum):
    """Which engine a unit needs. Only one of them runs at a time."""

    SPECULATIVE = "speculative"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the figures depend on; another one is another run."""

    trace: Trace
    seed: int
    repeats: int
    arms: tuple[str, ...]
    candidates: tuple[int, ...]
    rounds: int
    slice_seconds: float
    switch_seconds: float
    scrape_seconds: float
    tick_seconds: float
    max_tokens: int
    manifest: str
    pods: int = 1
    """Streams of a load are those of one pod, on average."""
    slow_pod: float = 1.0
    """Steps of one pod take so many times as long."""

    @property
    def fingerprint(self) -> str:
        """The same for the same settings."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]

    @property
    def static_arms(self) -> tuple[str, ...]:
        """Tables that are held in slices."""
        constant = tuple(map(str, self.candidates)) if STATIC in self.arms else ()
        return (*constant, *(table for table in TABLES if table in self.arms))

    @property
    def policies(self) -> tuple[str, ...]:
        """What drives the table without the bench, over whole traces."""
        return tuple(arm for arm in (*RULES, OUTRIDER) if arm in self.arms)


@dataclass(frozen=True, slots=True)
class StaticBlock:
    """All static tables one after another under one running load. slot_seconds: from push to push."""

    round: int
    load: Load
    order: tuple[str, ...]
    slot_seconds: float
    engine = Engine.SPECULATIVE

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"static {self.round + 1}, {self.load.name}"

    @property
    def seconds(self) -> float:
        """Of load."""
        return RAMP_SECONDS + len(self.order) * self.slot_seconds


@dataclass(frozen=True, slots=True)
class PlainBlock:
    """The engine that was launched without speculation, under one load."""

    visit: int
    load: Load
    counted_seconds: float
    engine = Engine.PLAIN

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"no speculation {self.visit + 1}, {self.load.name}"

    @property
    def seconds(self) -> float:
        """Of load."""
        return RAMP_SECONDS + self.counted_seconds


@dataclass(frozen=True, slots=True)
class PolicyTrace:
    """One policy over the whole trace, with nothing learnt before."""

    policy: str
    repeat: int
    trace: Trace
    engine = Engine.SPECULATIVE

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"{self.policy} {self.repeat + 1}"

    @property
    def seconds(self) -> float:
        """Of load."""
        return sum(phase.seconds for phase in self.trace)


Unit = StaticBlock | PlainBlock | PolicyTrace

RELAUNCH_SECONDS = 60.0
BEFORE_TRACE_SECONDS = 5.0
BETWEEN_LOADS_SECONDS = 1.0


def units(settings: Settings) -> tuple[Unit, ...]:
    """Rounds of slices and visits to the plain engine lie evenly among the traces, so that drift cancels."""
    chooser = random.Random(settings.seed)
    traces = _traces(settings, chooser)
    placed: list[tuple[float, tuple[Unit, ...]]] = [
        ((index + 0.5) / len(traces), (trace,)) for index, trace in enumerate(traces)
    ]
    if settings.static_arms:
        for index in range(settings.rounds):
            at = index / max(1, settings.rounds - 1)
            placed.append((at, _round(settings, index, chooser)))
    if NONE in settings.arms:
        visits = min(settings.rounds, settings.repeats)
        for visit in range(visits):
            placed.append(((visit + 0.5) / visits, _visit(settings, visit, visits)))
    placed.sort(key=lambda one: one[0])
    return tuple(chain.from_iterable(group for _, group in placed))


def _traces(settings: Settings, chooser: random.Random) -> tuple[PolicyTrace, ...]:
    """Shuffled, then mirrored, then shuffled anew."""
    found: list[PolicyTrace] = []
    policies, order = settings.policies, list[str]()
    for repeat in range(settings.repeats):
        order = chooser.sample(policies, len(policies)) if repeat % 2 == 0 else order[::-1]
        found += [PolicyTrace(policy, repeat, settings.trace) for policy in order]
    return tuple(found)


def _round(settings: Settings, index: int, chooser: random.Random) -> tuple[StaticBlock, ...]:
    arms, slot = settings.static_arms, settings.slice_seconds + settings.switch_seconds
    return tuple(
        StaticBlock(index, load, tuple(chooser.sample(arms, len(arms))), slot)
        for load in loads_of(settings.trace)
    )


def _visit(settings: Settings, visit: int, visits: int) -> tuple[PlainBlock, ...]:
    """As long as the slices of one table in all rounds."""
    counted = max(settings.rounds, 2) * settings.slice_seconds / visits
    return tuple(PlainBlock(visit, load, counted) for load in loads_of(settings.trace))


def seconds_left(left: Sequence[Unit], running: Engine | None) -> float:
    """How long these units will take, roughly, with the relaunches between them."""
    total = 0.0
    for unit in left:
        if unit.engine is not running:
            total += RELAUNCH_SECONDS
        running = unit.engine
        total += unit.seconds + BETWEEN_LOADS_SECONDS
        if isinstance(unit, PolicyTrace):
            total += BEFORE_TRACE_SECONDS + BETWEEN_LOADS_SECONDS * len(unit.trace)
    return total
