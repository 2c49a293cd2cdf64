"""One engine, kind of traffic and seed: every rule meets the same requests.

Gains are at equal work: engine seconds that a launch without a drafter needs for what a rule's engine made,
at the same batches, over the seconds that it took. So they do not depend on chance in the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from outrider.performance.step_time import StepTime
from outrider_lab.engines.fleet import Span
from outrider_lab.figures import Curve
from outrider_lab.maps import MapErrors
from outrider_lab.replay import Replay
from outrider_lab.rivals.contenders import STATIC
from outrider_lab.scenario_runs import run_scenario, scenario_map, static_runs, truth_of
from outrider_lab.scenarios import EventScenario
from tests.bench import held_out
from tests.bench.traffic.engines import engine
from tests.bench.traffic.kinds import scenario
from tests.bench.tuning.families import MAP_ERROR

OUTRIDER, UNPROFILED = "outrider", "outrider, no startup profile"
BEST_HELD, LARGEST_HELD, NO_DRAFTER, ORACLE = "best held K", "largest held K", "no drafter", "oracle"
HINDSIGHT = (BEST_HELD, ORACLE)
"""What no user can run, because it is chosen afterwards."""
VERIFYING = ("adaptive", "outrider-adaptive")
"""vLLM's adaptive verification, alone and below Outrider. Tables do not say what verifying costs."""
RIVALS = (
    "vllm-profile",
    "turbospec",
    "sglang",
    "ema",
    "sglang-throughput",
    "ucb-specstop",
    "nightjar",
    "bandit",
    "acceptance",
    "hand",
)
OWN = (OUTRIDER, UNPROFILED)
SETTLED_SECONDS = 30.0
COLD_SECONDS = 60.0
"""From the start of a run. All rules begin without having seen a request; engines serve for days."""


@dataclass(frozen=True)
class Job:
    """One run. overhead: of the idle drafter. number: of the repetition. commit: all 40 digits."""

    commit: str
    engine: str
    kind: str
    overhead: float
    number: int
    rules: tuple[str, ...]

    def scenario(self) -> EventScenario:
        """Its engines and requests."""
        found = engine(self.engine, self.commit, self.overhead)
        return scenario(self.kind, found, held_out.seed(self.commit, self.engine, self.kind, self.number))


@dataclass(frozen=True, slots=True)
class Phase:
    """A rule in one phase. gain: over a launch without a drafter. regret: against the best K of the phase.

    settled: regret after 30 s; None where the phase is not longer.
    """

    label: str
    gain: float
    regret: float
    settled: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """A rule in one run. warm: gain after `COLD_SECONDS`. coverage: ratio of reported speedups whose interval
    has the truth.
    """

    gain: float
    warm: float
    phases: tuple[Phase, ...]
    coverage: float | None = None
    width: float | None = None  # of these intervals, relative


Row = dict[str, object]


def run(job: Job) -> Row:
    """Run every rule of a job."""
    case = job.scenario()
    found = {rule: _found(case, rule) for rule in _possible(case, job.rules)}
    held = {k: _judged(case, static_runs(case)[f"{STATIC}{k}"]) for k in case.candidates}
    best = max(held, key=lambda k: held[k].gain)
    found |= {BEST_HELD: held[best], LARGEST_HELD: held[max(held)]}
    named = {name: getattr(job, name) for name in ("engine", "kind", "overhead", "number")}
    return {**named, "best_held": best, "found": {name: asdict(one) for name, one in found.items()}}


def _possible(case: EventScenario, rules: Sequence[str]) -> list[str]:
    formula = isinstance(case.plant.step, StepTime)
    return [rule for rule in rules if formula or rule not in VERIFYING]


def _found(case: EventScenario, rule: str) -> Found:
    name = "outrider" if rule == UNPROFILED else rule
    step_times = scenario_map(case, MapErrors(MAP_ERROR)) if rule in (OUTRIDER, "outrider-adaptive") else None
    done, figures = run_scenario(case, name, step_times=step_times)
    found = _judged(case, done)
    return replace(found, coverage=figures.coverage, width=figures.speedup_width)


def _judged(case: EventScenario, done: Replay) -> Found:
    phases = []
    own = Curve.of(done.spans)
    needed = [Curve.of(done.spans, needed=place) for place in range(len(case.candidates) + 1)]
    for phase in truth_of(case).phases:
        begin, end = phase.started_at, phase.ended_at

        def regret(start: float, end: float = end) -> float:
            fastest = max(float(curve.goodput(start, end)) for curve in needed[1:])
            return 1.0 - float(own.goodput(start, end)) / fastest

        longer = end - begin > SETTLED_SECONDS + 1.0
        gain = float(own.goodput(begin, end) / needed[0].goodput(begin, end)) - 1.0
        settled = regret(begin + SETTLED_SECONDS) if longer else None
        phases.append(Phase(phase.label, gain, regret(begin), settled))
    end = case.starts[-1]
    warm = float(own.goodput(COLD_SECONDS, end) / needed[0].goodput(COLD_SECONDS, end)) - 1.0
    return Found(_gain(done.spans), warm, tuple(phases))


def _gain(spans: Sequence[Span]) -> float:
    """Over a launch without a drafter, for all work of a run."""
    return sum(span.needed[0] for span in spans) / sum(span.engine_seconds for span in spans) - 1.0
