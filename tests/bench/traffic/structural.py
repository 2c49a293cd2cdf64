"""``python -m tests.bench.traffic.structural``: canaries and relaunches that the operator orders, simulated.

K=0 costs 0, 3 or 10 % of a step. Gains are over a launch without a drafter, at equal work. Draws follow from
the commit's hash. No engine runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise, product
from pathlib import Path

import numpy as np

from outrider.api.launch import RelaunchPolicy
from outrider.api.tuning import Canary, StructuralOff
from outrider_lab.engines.event_engine import Limits
from outrider_lab.engines.event_fleet import Plant
from outrider_lab.engines.fleet import Span
from outrider_lab.figures import covered
from outrider_lab.maps import MapErrors, measured_map
from outrider_lab.traffic.requests import Burst, Traffic
from tests.bench import held_out, results
from tests.bench.traffic.engines import OVERHEADS, TUNING, engine
from tests.bench.traffic.kinds import HIGH_ENTROPY, LOW_ENTROPY, TWO_CLASSES, Draw
from tests.bench.traffic.launches import START_SECONDS, Moment, Place, Run
from tests.bench.tuning.families import MAP_ERROR

HARD = (0.1, 0.4)
"""Acceptance of text for which drafting does not pay in large batches."""
REPORTED_SECONDS = 60.0
Phases = Sequence[Traffic]


def _steady_hard(draw: Draw) -> Phases:
    return [draw.closed(3600.0, draw.engine.most, draw.text(HARD))]


def _returns(draw: Draw) -> Phases:
    many = draw.closed(1800.0, draw.engine.most, draw.text(HARD))
    return [many, draw.closed(1800.0, 2, draw.text(LOW_ENTROPY))]


def _easy_after_hard(draw: Draw) -> Phases:
    hard = draw.closed(900.0, draw.engine.most, draw.text(HARD))
    return [hard, draw.closed(2700.0, draw.streams(2, 8.0), draw.text(LOW_ENTROPY))]


def _mixed(draw: Draw) -> Phases:
    return [draw.closed(3600.0, draw.engine.most, draw.text((0.5, 0.8)), exponents=TWO_CLASSES)]


def _flapping(draw: Draw) -> Phases:
    text = draw.text(HIGH_ENTROPY)
    return [draw.closed(240.0, (draw.engine.most, 1)[turn % 2], text) for turn in range(15)]


def _alternating(draw: Draw) -> Phases:
    streams, texts = draw.streams(4), (draw.text(LOW_ENTROPY), draw.text(HARD))
    return [draw.closed(60.0, streams, texts[turn % 2]) for turn in range(40)]


def _steady(draw: Draw) -> Phases:
    return [draw.closed(2400.0, draw.streams(), draw.text())]


def _bursts(draw: Draw) -> Phases:
    burst = Burst(draw.between(10, 40), draw.between(10, 40), off_factor=0.1)
    rate = draw.rate(max(1, round(0.25 * draw.engine.most)))
    return [Traffic(2400.0, draw.text(), rate=rate, output=draw.tokens(), burst=burst)]


OFF, ALLOWED = StructuralOff.NEVER, StructuralOff.ALLOW


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. interval: `relaunchInterval` in seconds. differ: 1 sigma of the pods' step times."""

    phases: Callable[[Draw], Phases]
    pods: int = 2
    structural: StructuralOff = ALLOWED
    canary: Canary = Canary.ALLOW
    interval: float = 600.0
    canary_slowness: float = 1.0
    differ: float = 0.0


KINDS: Mapping[str, Kind] = {
    "relaunch": Kind(_steady_hard, canary=Canary.NEVER, interval=3600.0),
    "relaunch and return": Kind(_returns, canary=Canary.NEVER),
    "flapping load": Kind(_flapping, canary=Canary.NEVER),
    "alternating text": Kind(_alternating, canary=Canary.NEVER),
    "easy after hard": Kind(_easy_after_hard, canary=Canary.NEVER, interval=3600.0),
    "two classes at once": Kind(_mixed, canary=Canary.NEVER),
    "canary and relaunch": Kind(_steady_hard),
    "canary": Kind(_steady, structural=OFF),
    "canary, pods differ": Kind(_steady, pods=3, structural=OFF, differ=0.02),
    "slow canary": Kind(_steady, structural=OFF, canary_slowness=1.05),
    "canary in bursts": Kind(_bursts, structural=OFF),
    "one replica": Kind(_steady_hard, pods=1),
}


@dataclass(frozen=True, slots=True)
class Found:
    """One run. after: gain while no pod has a drafter; None without such time.

    with_starts: gain where the GPU time of starting pods counts as spent.
    canary_seconds: time in which a canary was ordered. coverage, width: of intervals after its end.
    """

    engine: str
    kind: str
    true_overhead: float
    number: int
    gain: float
    with_starts: float
    after: float | None
    relaunches: int
    canary_seconds: float
    overhead: float | None  # of K=0, as a canary measured it
    coverage: float | None
    width: float | None
    reports: int


def place(name: str, kind: Kind, commit: str, number: int, overhead: float) -> Place:
    """Engines and traffic of a run, which are equal at every overhead."""
    found = engine(name, commit, overhead)
    seed = held_out.seed(commit, name, "structural", number)
    rng = np.random.default_rng((seed, 11))
    bare = replace(found, step=found.step.without_drafter())
    phases = tuple(kind.phases(Draw(bare, rng)))
    slowness = tuple(float(np.exp(rng.normal(0.0, kind.differ))) for _ in range(kind.pods))
    own = float(np.exp(rng.normal(0.0, kind.differ)))
    profile = measured_map(
        lambda batch, k, context: found.step.seconds(batch, k, batch * (context or 0.0)),
        candidates=found.candidates,
        largest_batch=found.most,
        contexts=(512.0, 2048.0),
        errors=MapErrors(MAP_ERROR),
        seed=seed,
    )
    return Place(
        Plant(found.step, Limits(max_num_seqs=found.most)),
        phases,
        found.candidates,
        RelaunchPolicy(
            structural_off=kind.structural,
            canary=kind.canary,
            interval_seconds=kind.interval,
            deadline_seconds=1200.0 * kind.pods,
        ),
        slowness,
        kind.canary_slowness * own,
        seed,
        profile,
    )


def run(job: tuple[str, str, str, float, int]) -> Found:
    """One run. job: commit, engine, kind, overhead of K=0, number of the repetition."""
    commit, name, kind, true, number = job
    where = place(name, KINDS[kind], commit, number, true)
    done = Run(where).all_of_it()
    moments = done.moments
    spans = [span for moment in moments for span in (*moment.drafting, *moment.bare)]
    after = [span for moment in moments if not moment.drafting for span in moment.bare]
    launches = [moment.order.launch for moment in moments]
    pairs = _reports(moments, where.phases, after_canary=KINDS[kind].canary is Canary.ALLOW)
    measured = [covered(moment.speedup, truth) for moment, truth in pairs if moment.speedup]
    widths = [(m.speedup.high - m.speedup.low) / m.speedup.ratio for m, _ in pairs if m.speedup]
    overhead = done.measured_overhead
    return Found(
        name,
        kind,
        true,
        number,
        _gain(spans),
        _gain(spans, START_SECONDS * done.started),
        _gain(after) if after else None,
        sum(one != other for one, other in pairwise(launches)),
        10.0 * sum(moment.order.canary is not None for moment in moments),
        overhead,
        sum(measured) / len(measured) if measured else None,
        sum(widths) / len(widths) if widths else None,
        len(measured),
    )


def _gain(spans: Sequence[Span], started: float = 0.0) -> float:
    return sum(span.needed[0] for span in spans) / (sum(s.engine_seconds for s in spans) + started) - 1.0


def _reports(moments: Sequence[Moment], phases: Phases, *, after_canary: bool) -> list[tuple[Moment, float]]:
    """Reports with the truth of the minute before, where load and text stayed for that minute."""
    found, had = list[tuple[Moment, float]](), not after_canary
    edges = np.cumsum([0.0, *(phase.seconds for phase in phases)])[:-1]
    ran = False
    for index, moment in enumerate(moments):
        ran = ran or moment.order.canary is not None
        had = had or (ran and moment.order.canary is None)
        last = moments[max(0, index - 5) : index + 1]
        spans = [span for one in last for span in one.drafting]
        stays = moment.at - max(edge for edge in edges if edge <= moment.at) >= REPORTED_SECONDS
        if moment.speedup is None or not had or not stays or phases[0].streams is None:
            continue
        if sum(span.engine_seconds for span in spans):
            found.append((moment, 1.0 + _gain(spans)))
    return found


def main(arguments: Sequence[str]) -> None:
    """Run, print a line each, and write all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traffic.structural", description=__doc__)
    parser.add_argument("--commit", help="whose hash the draws follow from; default: the working tree's")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--engine", action="append", help=f"default: {', '.join(TUNING)}")
    parser.add_argument("--kind", action="append", choices=tuple(KINDS))
    parser.add_argument("--overhead", action="append", type=float, help="of K=0; default: 0, 0.03, 0.1")
    parser.add_argument("--output", type=Path, default=Path("out/bench/structural.json"))
    options = parser.parse_args(arguments)
    commit = held_out.full_hash(options.commit or results.commit().removesuffix("-dirty"))
    began, rows = datetime.now(UTC), list[dict[str, object]]()
    overheads = options.overhead or OVERHEADS
    cells = product(range(options.repetitions), overheads, options.engine or TUNING, options.kind or KINDS)
    jobs = [(commit, name, kind, overhead, number) for number, overhead, name, kind in cells]
    head = results.head("tests.bench.traffic.structural", arguments, began)
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(run, jobs):
            rows.append(asdict(found))
            print(found, flush=True)
            results.write(options.output, {**head, "draws_of": commit, "runs": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
