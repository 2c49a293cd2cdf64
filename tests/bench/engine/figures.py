"""From finished units to figures: regret to the clairvoyant, loss, ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from examples.kit.records import Record
from tests.bench.engine.bootstrap import SINGLE_NOISE, Clairvoyant, Draws, clairvoyant, policy_draws
from tests.bench.engine.plan import NONE, OUTRIDER
from tests.bench.engine.rates import Rate, Slices, mean, runs_of, settled_pieces, slices_of, whole_pieces
from tests.bench.engine.records import UnitRecord
from tests.bench.engine.trace import Trace, loads_of

Pieces = Sequence[Sequence[Sequence[Rate]]]
"""Pieces by phase by run."""


class Interval(Record):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, draws: Draws) -> Interval:
        """The interval is the percentile one."""
        low, high = np.nanpercentile(draws, [2.5, 97.5])
        return cls(value=float(value), low=float(low), high=float(high))


class StaticFigures(Record):
    """A table that was held under one load, in tokens per second."""

    mean: float
    slices: list[float]


class ClairvoyantFigures(Record):
    """The best static K of a load. choices: by the even and by the odd rounds.

    best_mean: the largest mean over all rounds. It is too high where K are nearly as good as one another,
    as `tokens_per_second` is too low there: a half may choose the wrong one.
    """

    tokens_per_second: Interval
    choices: tuple[str, str]
    best_mean: float


class LoadFigures(Record):
    """What slices say of one load."""

    load: str
    static: dict[str, StaticFigures]
    clairvoyant: ClairvoyantFigures | None


class PhaseFigures(Record):
    """One arm in one phase. whole: after the ramp; settled: after the first 30 s. Fixed arms: slices.

    regret: 1 - tokens/s over the clairvoyant's. loss: 1 - tokens/s over those without speculation.
    """

    load: str
    whole: Interval
    settled: Interval | None
    by_repeat: list[float | None]
    regret_whole: Interval | None
    regret_settled: Interval | None
    loss: Interval | None


class ArmFigures(Record):
    """One arm over the whole trace; means over phases."""

    arm: str
    tokens_per_second: Interval
    phases: list[PhaseFigures]
    regret_whole: Interval | None
    regret_settled: Interval | None
    worst_regret_whole: Interval | None
    worst_regret_settled: Interval | None
    worst_loss: Interval | None
    loss: Interval | None
    """Of the whole trace's tokens per second."""
    regret_settled_to_best_mean: float | None
    """Against the best mean of each load, with its luck: an upper bound."""


class Figures(Record):
    """All arms, the fastest first. round_levels: each round's speed over the mean of all, for drift."""

    loads: list[LoadFigures]
    arms: list[ArmFigures]
    clairvoyant_tokens_per_second: float | None
    round_levels: list[float]
    ahead_of_best_rule: Interval | None
    """Outrider's tokens per second over those of the best other rule, minus 1."""
    best_rule: str | None


@dataclass(frozen=True, slots=True)
class Arm:
    """The draws of one arm, phase by phase."""

    name: str
    whole: Sequence[float]
    whole_draws: Sequence[Draws]
    settled: Sequence[float | None]
    settled_draws: Sequence[Draws | None]
    by_repeat: Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Analysis:
    """Everything that figures, coverage and the picture share. Deterministic.

    single_noise: relative standard error of what was measured only once.
    """

    trace: Trace
    units: Sequence[UnitRecord]
    single_noise: float = SINGLE_NOISE
    slices: Slices = field(init=False)
    best: Mapping[str, Clairvoyant] = field(init=False)
    arms: Mapping[str, Arm] = field(init=False)

    def __post_init__(self) -> None:
        generator = np.random.default_rng(0)
        slices = slices_of(self.units)
        best: dict[str, Clairvoyant] = {}
        constant = sorted({arm for _, arm in slices if arm.isdecimal()})
        for load in loads_of(self.trace):
            own = {arm: slices.get((load.name, arm), ()) for arm in constant}
            found = clairvoyant(own, generator, self.single_noise)
            if found is not None:
                best[load.name] = found
        object.__setattr__(self, "slices", slices)
        object.__setattr__(self, "best", best)
        object.__setattr__(self, "arms", dict(self._arms(generator)))

    def _arms(self, generator: np.random.Generator) -> Iterable[tuple[str, Arm]]:
        for name in dict.fromkeys(arm for _, arm in self.slices):
            held = [self.slices.get((phase.load.name, name)) for phase in self.trace]
            if all(rates is not None for rates in held):
                pieces = [[rates for rates in held if rates is not None]]
                yield name, self._arm(name, pieces, pieces, generator)
        for policy, runs in runs_of(self.units).items():
            whole = [[whole_pieces(one) for one in run.stretches] for run in runs]
            settled = [[settled_pieces(one) for one in run.stretches] for run in runs]
            yield policy, self._arm(policy, whole, settled, generator)

    def _arm(self, name: str, whole: Pieces, settled: Pieces, generator: np.random.Generator) -> Arm:
        phases = range(len(whole[0]))
        enough = [all(run[phase] for run in settled) for phase in phases]
        own = [[[run[phase]] for run in settled] if enough[phase] else None for phase in phases]
        noise = self.single_noise
        return Arm(
            name=name,
            whole=[_mean_of_runs(whole, phase) or 0.0 for phase in phases],
            whole_draws=policy_draws(whole, generator, noise),
            settled=[_mean_of_runs(settled, phase) if enough[phase] else None for phase in phases],
            settled_draws=[policy_draws(runs, generator, noise)[0] if runs else None for runs in own],
            by_repeat=[[mean(run[phase]) for run in whole] for phase in phases],
        )


def _mean_of_runs(pieces: Pieces, phase: int) -> float | None:
    known = [value for run in pieces if (value := mean(run[phase])) is not None]
    return sum(known) / len(known) if known else None


def figures(analysis: Analysis) -> Figures:
    """Everything that can be said without the status of the model."""
    arms = [_arm_figures(analysis, arm) for arm in analysis.arms.values()]
    arms.sort(key=lambda arm: -arm.tokens_per_second.value)
    best_rule, ahead = _ahead(analysis)
    return Figures(
        loads=[_load_figures(analysis, load.name) for load in loads_of(analysis.trace)],
        arms=arms,
        clairvoyant_tokens_per_second=_clairvoyant_rate(analysis),
        round_levels=_round_levels(analysis.slices),
        ahead_of_best_rule=ahead,
        best_rule=best_rule,
    )


def _load_figures(analysis: Analysis, load: str) -> LoadFigures:
    best = analysis.best.get(load)
    return LoadFigures(
        load=load,
        static={
            arm: StaticFigures(mean=mean(rates) or 0.0, slices=[one.value for one in rates])
            for (name, arm), rates in sorted(analysis.slices.items())
            if name == load
        },
        clairvoyant=None
        if best is None
        else ClairvoyantFigures(
            tokens_per_second=Interval.of(best.value, best.draws),
            choices=best.choices,
            best_mean=_best_mean(analysis.slices, load),
        ),
    )


def _arm_figures(analysis: Analysis, arm: Arm) -> ArmFigures:
    best = [analysis.best.get(phase.load.name) for phase in analysis.trace]
    none = analysis.arms.get(NONE)
    whole = [_regret(arm.whole[i], arm.whole_draws[i], best[i]) for i in range(len(best))]
    settled = [_regret(arm.settled[i], arm.settled_draws[i], best[i]) for i in range(len(best))]
    loss: list[_Drawn | None] = [None] * len(best)
    if none is not None and arm.name != NONE:
        loss = [
            (1 - arm.whole[i] / none.whole[i], 1 - arm.whole_draws[i] / none.whole_draws[i])
            for i in range(len(best))
        ]
    seconds = np.array([phase.seconds for phase in analysis.trace])
    share = seconds / seconds.sum()
    return ArmFigures(
        arm=arm.name,
        tokens_per_second=Interval.of(float(np.dot(share, arm.whole)), np.dot(share, arm.whole_draws)),
        phases=[
            PhaseFigures(
                load=phase.load.name,
                whole=Interval.of(arm.whole[i], arm.whole_draws[i]),
                settled=_interval(_pair(arm.settled[i], arm.settled_draws[i])),
                by_repeat=list(arm.by_repeat[i]),
                regret_whole=_interval(whole[i]),
                regret_settled=_interval(settled[i]),
                loss=_interval(loss[i]),
            )
            for i, phase in enumerate(analysis.trace)
        ],
        regret_whole=_mean(whole),
        regret_settled=_mean(settled),
        worst_regret_whole=_worst(whole),
        worst_regret_settled=_worst(settled),
        worst_loss=_worst(loss),
        loss=None if none is None or arm.name == NONE else _loss(arm, none, share),
        regret_settled_to_best_mean=_regret_to_best_mean(analysis, arm),
    )


def _loss(arm: Arm, none: Arm, share: Draws) -> Interval:
    value = 1 - float(np.dot(share, arm.whole) / np.dot(share, none.whole))
    return Interval.of(value, 1 - np.dot(share, arm.whole_draws) / np.dot(share, none.whole_draws))


def _best_mean(slices: Slices, load: str) -> float:
    return max(
        mean(rates) or 0.0 for (name, arm), rates in slices.items() if name == load and arm.isdecimal()
    )


def _regret_to_best_mean(analysis: Analysis, arm: Arm) -> float | None:
    regrets = [
        1 - value / _best_mean(analysis.slices, phase.load.name)
        for value, phase in zip(arm.settled, analysis.trace, strict=True)
        if value is not None and phase.load.name in analysis.best
    ]
    return float(np.mean(regrets)) if regrets else None


_Drawn = tuple[float, Draws]


def _pair(value: float | None, draws: Draws | None) -> _Drawn | None:
    return None if value is None or draws is None else (value, draws)


def _regret(value: float | None, draws: Draws | None, best: Clairvoyant | None) -> _Drawn | None:
    if value is None or draws is None or best is None:
        return None
    return 1 - value / best.value, 1 - draws / best.draws


def _interval(drawn: _Drawn | None) -> Interval | None:
    return None if drawn is None else Interval.of(*drawn)


def _mean(drawn: Sequence[_Drawn | None]) -> Interval | None:
    """Over the phases that have the figure."""
    known = [one for one in drawn if one is not None]
    if not known:
        return None
    return Interval.of(
        float(np.mean([value for value, _ in known])), np.mean([one for _, one in known], axis=0)
    )


def _worst(drawn: Sequence[_Drawn | None]) -> Interval | None:
    """The worst phase, with that phase's own interval."""
    known = [one for one in drawn if one is not None]
    return _interval(max(known, key=lambda one: one[0])) if known else None


def _clairvoyant_rate(analysis: Analysis) -> float | None:
    best = [analysis.best.get(phase.load.name) for phase in analysis.trace]
    seconds = [phase.seconds for phase in analysis.trace]
    values = [one.value for one in best if one is not None]
    return float(np.average(values, weights=seconds)) if len(values) == len(best) else None


def _ahead(analysis: Analysis) -> tuple[str | None, Interval | None]:
    """Outrider over the best other rule. Tables of several rows are rules, constant tables are not."""
    others = [arm for name, arm in analysis.arms.items() if not (name.isdecimal() or name == NONE)]
    own = next((arm for arm in others if arm.name == OUTRIDER), None)
    rules = [arm for arm in others if arm.name != OUTRIDER]
    if own is None or not rules:
        return None, None
    seconds = np.array([phase.seconds for phase in analysis.trace])
    best = max(rules, key=lambda arm: float(np.dot(seconds, arm.whole)))
    value = np.dot(seconds, own.whole) / np.dot(seconds, best.whole) - 1
    draws = np.dot(seconds, own.whole_draws) / np.dot(seconds, best.whole_draws) - 1
    return best.name, Interval.of(float(value), draws)


def _round_levels(slices: Slices) -> list[float]:
    """Speed of each round relative to the mean of all rounds, over all constant tables and loads."""
    ratios: dict[int, list[float]] = {}
    for (_, arm), rates in slices.items():
        middle = mean(rates)
        if arm != NONE and middle:
            for one in rates:
                ratios.setdefault(one.number, []).append(one.value / middle)
    return [float(np.mean(ratios[number])) for number in sorted(ratios)]
