"""What the simulator says that a run on stand-ins finds: the same arms, loads, texts, ticks and scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot
from typing import Self

import numpy as np

from examples.kit.loads import RAMP_SECONDS, Load
from examples.kit.prompts import PROMPT_BYTES
from examples.kit.records import Record
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.policy import Policy
from outrider_lab.engines.event_fleet import Plant
from outrider_lab.figures import Curve
from outrider_lab.replay import replay
from outrider_lab.rivals.contenders import STATIC as STATIC_K
from outrider_lab.rivals.contenders import Brief, make
from outrider_lab.rivals.profiled import OfflineProfile
from outrider_lab.rivals.steered import FromOutside
from outrider_lab.scenarios import EventScenario
from outrider_lab.traffic.requests import ALIKE, Trace, Traffic
from outrider_twin.settings import Settings as TwinSettings
from tests.bench.engine.figures import ArmFigures, Interval
from tests.bench.engine.knowledge import (
    SWEEP_ERRORS,
    chances,
    offline_profile,
    step_time_map,
    steps_of,
    usual_chances,
)
from tests.bench.engine.plan import NONE, Settings
from tests.bench.engine.rates import SETTLED_SECONDS
from tests.bench.engine.trace import Phase

SEEDS = 3
MOST_APART = 0.01
"""Measured and predicted figures that are further apart are marked."""
NUMBER_BYTES = 10
"""Characters of a prompt's end, which identify it."""
CACHE_BLOCK = 16
AWAY_SECONDS, AWAY_STEPS = 0.010, 1.0
"""Until a client's next request arrives, measured on stand-ins by seats that were empty at steps of 7.5 to
37 ms. With asynchronous scheduling the step after the one that ends a request is planned already."""
AWAY_SECONDS_PER_STREAM = 0.002
"""Clients and server share two cores with all else. From 72 rates of held tables on stand-ins for an H100
with answers of 128 and of 256 tokens, which are 0.4 % too high on average with it and 2.7 % without."""
WINDOW_STEPS = 500
"""Of a window of 10 s, roughly: over so many is the white noise of a step averaged."""


class Prediction(Record):
    """One arm over the whole trace; means over phases, as in `ArmFigures`."""

    arm: str
    tokens_per_second: float
    regret_whole: float
    regret_settled: float | None
    probe_share: float = 0.0
    """Time with another K than the table's, of all pods. A probe also has slices with the table's own."""


class Apart(Record):
    """How far what was measured lies above the prediction. tokens_per_second: relative; regrets: as they are.

    None where one of both is missing.
    """

    tokens_per_second: float
    regret_whole: float | None
    regret_settled: float | None

    def mark(self, figure: str) -> str:
        """An exclamation mark where one of both is wrong by more than a point."""
        found: float | None = getattr(self, figure)
        return "!" if found is not None and abs(found) > MOST_APART else ""


def apart(measured: ArmFigures, predicted: Prediction) -> Apart:
    """Of one arm."""

    def over(own: Interval | None, other: float | None) -> float | None:
        return None if own is None or other is None else own.value - other

    whole, settled = measured.regret_whole, measured.regret_settled
    return Apart(
        tokens_per_second=measured.tokens_per_second.value / predicted.tokens_per_second - 1,
        regret_whole=over(whole, predicted.regret_whole),
        regret_settled=over(settled, predicted.regret_settled),
    )


def scenario(settings: Settings, twin: TwinSettings, largest_batch: int, seed: int) -> EventScenario:
    """The run for the simulator. Streams are dealt over the pods by chance, as a Service deals connections.

    Clients need `AWAY_SECONDS` and `AWAY_STEPS` between two requests.
    """
    slowness = [twin.time_factor] * settings.pods
    slowness[0] *= settings.slow_pod
    plant = Plant(
        steps_of(twin),
        slowness=tuple(slowness),
        noise=hypot(twin.noise.drift, twin.noise.white / WINDOW_STEPS**0.5),
        scrape_interval=settings.scrape_seconds,
    )
    limits = replace(plant.limits, max_num_seqs=largest_batch, kv_cache_tokens=twin.description().kv_tokens)
    known, usual = chances(twin), usual_chances(twin)
    phases = tuple(
        _traffic(phase, known.get(phase.load.text, usual), settings.max_tokens) for phase in settings.trace
    )
    return EventScenario(
        name="stand-ins",
        plant=replace(plant, limits=limits),
        trace=Trace(phases, pods=settings.pods, seed=seed),
        candidates=settings.candidates,
        interval=settings.tick_seconds,
    )


def away_seconds(streams: int) -> float:
    """Between two requests of a stream, where so many share a pod; `AWAY_STEPS` come on top."""
    return AWAY_SECONDS + AWAY_SECONDS_PER_STREAM * streams


def _traffic(phase: Phase, acceptance: tuple[float, ...], max_tokens: int) -> Traffic:
    known = max(PROMPT_BYTES, phase.load.context)
    return Traffic(
        seconds=phase.seconds,
        acceptance=acceptance,
        streams=phase.load.streams,
        prompt=known + NUMBER_BYTES,
        output=max_tokens,
        label=phase.load.name,
        length_spread=0.0,
        exponents=ALIKE,
        cached=known // CACHE_BLOCK * CACHE_BLOCK,
        away_seconds=away_seconds(phase.load.streams),
        away_steps=AWAY_STEPS,
        anew=True,
        by_chance=True,
    )


def predict(
    settings: Settings, twin: TwinSettings, law: Policy, arms: Iterable[str], *, seeds: int = SEEDS
) -> list[Prediction]:
    """Of these arms; means over some seeds. The clairvoyant holds the best K of each load."""
    runs = [_Known.of(settings, twin, law, seed) for seed in range(seeds)]
    found = {arm: _mean([_rates(one, arm) for one in runs]) for arm in arms}
    static = [
        found.get(arm) or _mean([_rates(one, arm) for one in runs]) for arm in map(str, settings.candidates)
    ]
    best = _best(settings.trace, [one.whole for one in static])
    seconds = [phase.seconds for phase in settings.trace]
    return [
        Prediction(
            arm=arm,
            tokens_per_second=float(np.average(one.whole, weights=seconds)),
            regret_whole=_regret(one.whole, best) or 0.0,
            regret_settled=_regret(one.settled, best),
            probe_share=one.probe_share,
        )
        for arm, one in found.items()
    ]


@dataclass(frozen=True, slots=True)
class _Rates:
    """Tokens per second of each phase. settled: None where it is too short."""

    whole: Sequence[float]
    settled: Sequence[float | None]
    probe_share: float


@dataclass(frozen=True, slots=True)
class _Known:
    """A run, and what its policies know before it."""

    run: EventScenario
    law: Policy
    step_times: StepTimeProfile
    profile: OfflineProfile

    @classmethod
    def of(cls, settings: Settings, twin: TwinSettings, law: Policy, seed: int) -> Self:
        run = scenario(settings, twin, law.max_num_seqs, seed)
        known = replace(law, candidates=run.candidates)
        step_times = step_time_map(twin, known, SWEEP_ERRORS, seed)
        return cls(run, known, step_times, offline_profile(twin, known, settings.seed))


def _rates(known: _Known, arm: str) -> _Rates:
    """Of one arm under one seed."""
    run = known.run.without_drafter() if arm == NONE else known.run
    law = replace(known.law, candidates=run.candidates)
    name = f"{STATIC_K}{arm}" if arm.isdecimal() else f"{STATIC_K}0" if arm == NONE else arm
    rng = np.random.default_rng((run.seed, 4))
    first_tick = float(rng.uniform(0.2, 1.0)) * run.interval
    fleet, horizon = run.fleet(law.bins, rng), run.starts[-1]
    # Engines of the closed loop take schedules alone.
    tuner = FromOutside(make(name, Brief(law, oracle={}, step_times=known.step_times, profile=known.profile)))
    done = replay(fleet, tuner, horizon=horizon, interval=run.interval, first_tick=first_tick)
    curve, ends = Curve.of(done.spans), list(pairwise(run.starts))
    return _Rates(
        whole=[_rate(curve, begin + RAMP_SECONDS, end) for begin, end in ends],
        settled=[
            _rate(curve, begin + SETTLED_SECONDS, end) if end - begin > SETTLED_SECONDS else None
            for begin, end in ends
        ],
        probe_share=sum(one.seconds for one in done.spans if one.off_table) / (horizon * run.trace.pods),
    )


def _rate(curve: Curve, begin: float, end: float) -> float:
    first, last = np.interp([begin, end], curve.times, curve.tokens)
    return float(last - first) / (end - begin)


def _mean(rates: Sequence[_Rates]) -> _Rates:
    return _Rates(
        whole=[float(np.mean(one)) for one in zip(*(rate.whole for rate in rates), strict=True)],
        settled=[_known_mean(one) for one in zip(*(rate.settled for rate in rates), strict=True)],
        probe_share=float(np.mean([one.probe_share for one in rates])),
    )


def _known_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _best(trace: Sequence[Phase], static: Sequence[Sequence[float]]) -> list[float]:
    """The clairvoyant's tokens per second in each phase: a K's mean over all phases of a load."""
    means: dict[Load, float] = {}
    for one in {phase.load for phase in trace}:
        places = [place for place, phase in enumerate(trace) if phase.load == one]
        means[one] = max(float(np.mean([rates[place] for place in places])) for rates in static)
    return [means[phase.load] for phase in trace]


def _regret(rates: Sequence[float | None], best: Sequence[float]) -> float | None:
    pairs = zip(rates, best, strict=True)
    return _known_mean([None if rate is None else 1 - rate / other for rate, other in pairs])
