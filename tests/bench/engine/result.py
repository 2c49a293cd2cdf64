"""What a run writes to ``result.json``, and the goals that it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from examples.kit.conditions import Surroundings
from examples.kit.lateness import MOST_LATE, is_void
from examples.kit.records import Record, Requests
from tests.bench.engine.figures import Analysis, ArmFigures, Figures, figures
from tests.bench.engine.plan import OUTRIDER
from tests.bench.engine.prediction import Prediction
from tests.bench.engine.rates import runs_of
from tests.bench.engine.records import UnitRecord
from tests.bench.engine.status import Coverage, Reaction, coverage, reactions

REGRET = 0.03
LOSS = 0.02
COVERED = 0.95
REACTION_SECONDS = 30.0


class Conditions(Surroundings):
    """What the figures were measured on, and how."""

    started: str
    finished: str
    commit: str
    plan: str
    trace: str
    seed: int
    repeats: int
    rounds: int
    slice_seconds: float
    scrape_seconds: float
    tick_seconds: float
    max_tokens: int
    temperature: float
    arms: list[str]
    candidates: list[int]
    hand_table: str
    load_average: list[float]
    """Of the client's machine, at the end of each unit."""
    engine: str = "real"
    pods: int = 1
    slow_pod: float = 1.0


class Goal(Record):
    """One figure to reach. reached: None if the run does not show it."""

    words: str
    limit: float
    value: float | None
    reached: bool | None
    note: str = ""


class Result(Record):
    """Everything that one run found."""

    conditions: Conditions
    goals: list[Goal]
    figures: Figures
    coverage: Coverage | None
    reactions: list[Reaction]
    requests: Requests
    restarts: int
    units: list[UnitRecord]
    late: tuple[str, ...] = ()
    """Units in which stand-ins lost more than 1 % of their time, however often they were driven."""
    probe_shares: tuple[float, ...] = ()
    """Of the time of all pods, in each of Outrider's traces; for stand-ins."""
    predictions: tuple[Prediction, ...] = ()
    """The simulator's, for stand-ins."""

    def write(self, path: Path) -> Path:
        """Write it and return the path."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return path


def result(analysis: Analysis, conditions: Conditions, predictions: Sequence[Prediction] = ()) -> Result:
    """Judge the units."""
    found, covered = figures(analysis), coverage(analysis)
    reacted = reactions(analysis)
    own = runs_of(analysis.units).get(OUTRIDER, ())
    requests = Requests.of(stretch for unit in analysis.units for stretch in unit.stretches)
    restarts = sum(unit.restarts for unit in analysis.units)
    return Result(
        conditions=conditions,
        goals=[
            *_arm_goals(found),
            _coverage_goal(covered),
            _reaction_goal([one for one in reacted if one.policy == OUTRIDER], conditions.scrape_seconds),
            _none_of("failed requests", requests.failed),
            _none_of("restarts of pods", restarts),
            *_late_goals(analysis.units),
        ],
        figures=found,
        coverage=covered,
        reactions=reacted,
        requests=requests,
        restarts=restarts,
        units=list(analysis.units),
        late=tuple(unit.key for unit in analysis.units if is_void(unit.late)),
        probe_shares=tuple(_probe_share(run) for run in own if run.probes),
        predictions=tuple(predictions),
    )


def _probe_share(run: UnitRecord) -> float:
    seen = [one for one in run.probes if any(stretch.covers(one.time) for stretch in run.stretches)]
    looks = sum(one.pods for one in seen)
    return sum(one.probing for one in seen) / looks if looks else 0.0


def _late_goals(units: Sequence[UnitRecord]) -> list[Goal]:
    """None for real engines."""
    known = [(unit.late, unit.key) for unit in units if unit.late is not None]
    if not known:
        return []
    late = [key for share, key in known if is_void(share)]
    note = f"the latest of all lost {max(share for share, _ in known):.2%}" + "".join(
        f"; {key}" for key in late
    )
    words = f"units in which stand-ins lost more than {MOST_LATE:.0%} of their time"
    return [Goal(words=words, limit=0, value=len(late), reached=not late, note=note)]


def _arm_goals(found: Figures) -> list[Goal]:
    own = next((arm for arm in found.arms if arm.arm == OUTRIDER), None)
    return [_regret_goal(own), _first_goal(found), _loss_goal(own)]


def _regret_goal(own: ArmFigures | None) -> Goal:
    words = "mean regret to the oracle policy after the first 30 s of a phase"
    regret = own.regret_settled if own else None
    upper = own.regret_settled_to_best_mean if own else None
    if regret is None or upper is None:
        return Goal(words=words, limit=REGRET, value=None, reached=None)
    note = f"95 % interval {regret.low:.3f} to {regret.high:.3f}; to the best mean {upper:.3f}"
    return Goal(words=words, limit=REGRET, value=regret.value, reached=regret.value <= REGRET, note=note)


def _first_goal(found: Figures) -> Goal:
    words = "tokens/s on the whole trace over the best other rule, minus 1"
    ahead = found.ahead_of_best_rule
    if ahead is None:
        return Goal(words=words, limit=0.0, value=None, reached=None)
    note = f"best other rule: {found.best_rule}; 95 % interval {ahead.low:.3f} to {ahead.high:.3f}"
    return Goal(words=words, limit=0.0, value=ahead.value, reached=ahead.value > 0, note=note)


def _loss_goal(own: ArmFigures | None) -> Goal:
    words = "worst phase below no drafter, beyond noise"
    if own is None or own.worst_loss is None:
        return Goal(words=words, limit=LOSS, value=None, reached=None)
    beyond = [phase for phase in own.phases if phase.loss is not None and phase.loss.low > LOSS]
    worst = own.worst_loss
    note = f"95 % interval {worst.low:.3f} to {worst.high:.3f}; {len(beyond)} phases lie beyond noise"
    return Goal(words=words, limit=LOSS, value=worst.value, reached=not beyond, note=note)


def _coverage_goal(covered: Coverage | None) -> Goal:
    words = "ratio of reported speedups that agree with the measured ones within both errors"
    if covered is None or covered.consistent is None:
        return Goal(words=words, limit=COVERED, value=None, reached=None)
    note = (
        f"{len(covered.reported)} reported; {covered.covered:.2f} contain the bare measured ratio, "
        f"whose own error is {covered.noise:.3f}; in {covered.left_out} phases none was measured"
    )
    value = covered.consistent
    return Goal(words=words, limit=COVERED, value=value, reached=value >= COVERED, note=note)


def _reaction_goal(reacted: Sequence[Reaction], scrape_seconds: float) -> Goal:
    words = "longest seconds from a load step to a new schedule in force"
    needed = [one for one in reacted if one.wanted]
    missed = [one for one in needed if one.seconds is None]
    known = [one.seconds for one in needed if one.seconds is not None]
    if not needed:
        return Goal(
            words=words,
            limit=REACTION_SECONDS,
            value=None,
            reached=None,
            note="no step needed another",
        )
    note = f"{len(needed)} steps needed one, {len(missed)} got none, at scrapes every {scrape_seconds:g} s"
    return Goal(
        words=words,
        limit=REACTION_SECONDS,
        value=max(known, default=None),
        reached=not missed and max(known) <= REACTION_SECONDS,
        note=note,
    )


def _none_of(words: str, count: int) -> Goal:
    return Goal(words=words, limit=0, value=count, reached=count == 0)
