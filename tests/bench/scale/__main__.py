"""``python -m tests.bench.scale``: one operator with many models: creation, steady work and other leaders."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from outrider.controller.settings import MetricsSourceKind as Source
from tests.bench import results
from tests.bench.scale.figures import Figures, ratios, table
from tests.bench.scale.operators import Operator, some_operators
from tests.bench.scale.phases import creation, other_leader, steady_work
from tests.bench.scale.place import Place, a_place
from tests.bench.scale.reference import measure_reference
from tests.bench.scale.slow import AFTERWARDS, STEADY, Slow


@dataclass(frozen=True, slots=True)
class Options:
    """How each size is measured.

    settle, steady: seconds before a time that is measured, and its seconds; 0: creation alone. source: of the
    operator's metrics. slow: what becomes slow for a second time. shards: processes of the operator.
    """

    settle: float
    steady: float
    source: Source
    slow: Slow
    shards: int


def measure(models: int, options: Options) -> Figures:
    """One size, on an API server of its own."""
    found: Figures = {"models": float(models)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-")))
        place = stack.enter_context(a_place(folder, options.source, options.slow))

        def start(name: str) -> Sequence[Operator]:
            return stack.enter_context(some_operators(place, name, options.shards))

        operators = start("operator")
        place.mark()
        found |= creation(place, operators, models)
        if not options.steady:
            return found
        found |= _times(place, operators, models, options)
        if options.slow is not Slow.NOTHING:
            return found
        for name, how in (("restart", signal.SIGTERM), ("crash", signal.SIGKILL)):
            operators, renewed = other_leader(place, operators, models, name, how, partial(start, name))
            found |= renewed
    return found


def _times(place: Place, operators: Sequence[Operator], models: int, options: Options) -> Figures:
    """A steady time; where something becomes slow, also that time and one after it."""
    slow, found = options.slow, Figures()
    times = [(Slow.NOTHING, STEADY)]
    if slow is not Slow.NOTHING:
        times += [(slow, _name(slow)), (Slow.NOTHING, AFTERWARDS)]
    for what, name in times:
        place.slow_down(what)
        time.sleep(options.settle)
        found |= steady_work(place, operators, models, options.steady, name, others=slow.of_one_model)
    return found


def _name(slow: Slow) -> str:
    return f"slow {slow}"


def _ratios(found: Figures, slow: Slow) -> str:
    compared = ratios(found, _name(slow), (STEADY, AFTERWARDS))
    lines = [f"| {figure} | {ratio:.2f} |" for figure, ratio in compared.items()]
    return "\n".join([f"| {_name(slow)} | ratio to normal |", "|---|---|", *lines])


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", default="30,100,300", help="sizes, separated by commas")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds before a time that is measured")
    parser.add_argument(
        "--steady", type=float, default=60.0, help="seconds of a time that is measured; 0: creation alone"
    )
    parser.add_argument(
        "--source",
        type=Source,
        choices=list(Source),
        default=Source.POD_SCRAPE,
        help="of the operator's metrics",
    )
    parser.add_argument(
        "--slow",
        type=Slow,
        choices=list(Slow),
        default=Slow.NOTHING,
        help="what becomes slow between two normal times, in place of other leaders",
    )
    parser.add_argument("--shards", type=int, default=1, help="processes that share the models")
    parser.add_argument(
        "--reference", type=Path, help="measure this built reference controller in place of the operator"
    )
    parser.add_argument("--json", type=Path, default=Path("out/bench/scale.json"), help="file of the result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    _options(parser)
    given = parser.parse_args()
    options = Options(given.settle, given.steady, given.source, given.slow, given.shards)
    head, records = results.head("tests.bench.scale", sys.argv[1:], datetime.now(UTC)), []
    for models in map(int, given.models.split(",")):
        if given.reference is None:
            records.append(measure(models, options))
        else:
            records.append(measure_reference(given.reference, models))
        print(table(records), flush=True)
        if options.slow is not Slow.NOTHING:
            print(_ratios(records[-1], options.slow), flush=True)
        kind = "operator" if given.reference is None else "reference"
        results.write(given.json, {**head, "of": kind, "options": asdict(options), "sizes": records})


if __name__ == "__main__":
    main()
