"""The fast loop of one engine, step by step: how soon it reacts, what looks cost, and who could abuse it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import exp
from statistics import median

import numpy as np

from outrider.performance.step_time import StepTime
from outrider_lab.engines.formula_engine import acceptance_traces
from outrider_protocol.cost_model import CostModel
from outrider_protocol.fast_loop import FastLoop
from outrider_protocol.schedule import Schedule

CANDIDATES = (0, 1, 2, 3, 5)
CONTEXT = 1000
"""Tokens in the KV cache per request."""
ERROR = 0.03
"""Of each believed step time, relative, 1 sigma."""
PERIODS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 40.0)
"""Seconds of a turn that a client may choose in order to do harm."""
CLOSE = 0.95
"""Of the best expected goodput: a K that gives so much has followed the text."""
STEADY_STEPS = 20
"""Steps for which K has to stay there."""

Text = Sequence[float]


class Engine:
    """One engine of constant batch size, whose K the fast loop chooses."""

    def __init__(self, step: StepTime, batch: int, seed: int, *, error: float = ERROR) -> None:
        self.batch, self.now, self.tokens = batch, 0.0, 0.0
        self.steps = 0
        self._rng = np.random.default_rng(seed)
        self.seconds = {k: step.seconds(batch, k, batch * CONTEXT) for k in CANDIDATES}
        self.loop = FastLoop(_believed(step, batch, error, self._rng), k=CANDIDATES[-1])
        self._late: tuple[int, int, Sequence[int]] | None = None

    def drafts(self, text: Text, steps: int = 2048) -> list[list[int]]:
        """Requests whose draft is accepted up to each position, by step."""
        runs = acceptance_traces(text, self.batch, self._rng, steps)
        counts: list[list[int]] = np.stack(
            [(runs > at).sum(axis=0) for at in range(len(text))], axis=1
        ).tolist()
        return counts

    def serve(self, drafts: Sequence[Sequence[int]], seconds: float) -> Iterator[int]:
        """Steps of one text for a time; yields the K between looks after each."""
        end = self.now + seconds
        while self.now < end:
            k = self.loop.choose(self.batch, self.batch * CONTEXT)
            if self._late is not None:
                self.loop.count(*self._late)
            row = drafts[self.steps % len(drafts)][:k]
            self._late = (k, self.batch, row)
            self.steps += 1
            self.now += self.seconds[k]
            self.tokens += self.batch + sum(row)
            yield self.loop.k

    def run(self, drafts: Sequence[Sequence[int]], seconds: float) -> None:
        """Serve, and look at nothing."""
        for _ in self.serve(drafts, seconds):
            pass

    def goodputs(self, drafts: Sequence[Sequence[int]], *, believed: bool = False) -> dict[int, float]:
        """Of every fixed K on these drafts, in tokens per second, by true or believed step times."""
        means = np.mean(np.asarray(drafts), axis=0)
        model, batch = self.loop.model, self.batch
        seconds = {k: model.seconds(k, batch) for k in CANDIDATES} if believed else self.seconds
        return {k: float(batch + means[:k].sum()) / seconds[k] for k in CANDIDATES}


def reaction(step: StepTime, batch: int, before: Text, after: Text, seed: int) -> float | None:
    """Seconds from a change of text until K gives nearly the best goodput and stays; None without a need."""
    engine = Engine(step, batch, seed)
    first, then = engine.drafts(before), engine.drafts(after)
    goodputs = engine.goodputs(then, believed=True)
    enough = {k for k, each in goodputs.items() if each >= CLOSE * max(goodputs.values())}
    engine.run(first, 90.0)
    if engine.loop.k in enough:
        return None
    began, since, steady = engine.now, engine.now, 0
    for k in engine.serve(then, 60.0):
        steady = steady + 1 if k in enough else 0
        if steady == 1:
            since = engine.now
        if steady == STEADY_STEPS:
            return since - began
    return 60.0


def look_cost(step: StepTime, batch: int, text: Text, seed: int) -> float | None:
    """Ratio of goodput that looks cost against K=0, after a quiet minute; None where another K is best."""
    engine = Engine(step, batch, seed, error=0.0)
    drafts = engine.drafts(text)
    goodputs = engine.goodputs(drafts)
    if max(goodputs, key=lambda k: goodputs[k]) != 0:
        return None
    engine.run(drafts, 75.0)
    began, tokens = engine.now, engine.tokens
    engine.run(drafts, 60.0)
    return 1.0 - (engine.tokens - tokens) / (engine.now - began) / goodputs[0]


def abuse(step: StepTime, batch: int, texts: Sequence[Text], period: float, seed: int) -> float:
    """Gain over the best fixed K where clients change the text every so many seconds, in order to do harm."""
    engine = Engine(step, batch, seed)
    drafts = [engine.drafts(text) for text in texts]
    fixed = [engine.goodputs(each) for each in drafts]
    best = max(sum(each[k] for each in fixed) / len(fixed) for k in CANDIDATES)
    for turn in range(2 * max(2, round(30.0 / period))):
        engine.run(drafts[turn % len(drafts)], period)
    return engine.tokens / engine.now / best - 1.0


def claims(
    contrasts: Sequence[Sequence[Text]],
    step: StepTime,
    each: Callable[..., Iterable[float | None]] = map,
    seeds: int = 3,
) -> dict[str, float]:
    """The figures of the fast loop alone: seconds, and ratios of goodput."""
    texts = [pair for one in contrasts for pair in (tuple(one), tuple(reversed(one)))]
    changes = list(product((1, 2, 8, 24, 64), texts, range(seeds)))
    reactions = _found(each(_reaction, [step] * len(changes), changes))
    quiet = list(product((1, 8, 64), [(p,) * 5 for p in (0.01, 0.05, 0.12)], range(seeds)))
    costs = _found(each(_look_cost, [step] * len(quiet), quiet))
    hostile = list(product((1, 8, 64), [tuple(one) for one in contrasts], PERIODS))
    gains = _found(each(_abuse, [step] * len(hostile), hostile))
    return {
        "reaction_median_seconds": median(reactions),
        "reaction_p95_seconds": float(np.quantile(reactions, 0.95)),
        "reaction_max_seconds": max(reactions),
        "look_cost_max": max(costs),
        "worst_period_gain": min(gains),
    }


def _reaction(step: StepTime, job: tuple[int, Sequence[Text], int]) -> float | None:
    batch, (before, after), seed = job
    return reaction(step, batch, before, after, seed)


def _look_cost(step: StepTime, job: tuple[int, Text, int]) -> float | None:
    return look_cost(step, *job)


def _abuse(step: StepTime, job: tuple[int, Sequence[Text], float]) -> float | None:
    return abuse(step, *job, seed=0)


def _found(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _believed(step: StepTime, batch: int, error: float, rng: np.random.Generator) -> CostModel:
    seconds = tuple(
        step.seconds(batch, k, batch * CONTEXT) * exp(error * float(rng.standard_normal()))
        for k in CANDIDATES
    )
    return CostModel(
        revision="simulated",
        candidates=CANDIDATES,
        batch_sizes=(batch,),
        step_seconds=(seconds,),
        errors=((max(error, 1e-3),) * len(CANDIDATES),),
        context_tokens=float(CONTEXT),
        context_slopes=tuple(step.growth(k) for k in CANDIDATES),
        limits=Schedule.constant(CANDIDATES[-1]),
    )
