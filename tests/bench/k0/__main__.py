"""What K=0 costs beside a drafter: ``python -m tests.bench.k0``, on a quiet machine.

Engines of the tiny models live side by side, and one of them works at a time: a stock vLLM without a
drafter, K=0 with a drafter that follows every step, and K=0 with one that is left out.
A second engine without a drafter shows by how much two processes differ that do the same.
Each pair asks all of them for the same texts, in an order that is drawn anew. Prompts are short and answers
long, so decoding is nearly all there is; no text is asked for twice. The core of each engine computes by
itself, as on one GPU.

Three figures of each run: seconds until the last answer, as clients see it; vLLM's own mean time between two
tokens of a request; and what the core had of the processors per token, without the time that others had. It
varies nearly as much as the clock. The result, with the command that made it, goes to
out/bench/k0/METHOD.json. What parts of a step the cost is in: `tests.bench.k0.parts`.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from tests.bench.k0.arms import AGAIN, ARMS, BOTH, SKIP, STOCK, SYNC
from tests.bench.k0.loads import REPORTS, Bench, Load, Result, Runs, over_loads, parser
from tests.bench.k0.runs import Run, measure
from tests.bench.k0.statistics import relative_cost
from tests.bench.results import head, write
from tests.contract.engine import Engine


def measure_time(engines: Mapping[str, Engine], load: Load, arm: str, asked: str) -> Run:
    """One load on one engine."""
    return measure(engines[arm], streams=load.streams, tokens=load.tokens, name=asked)


def conclude(runs: Runs[Run], starts: int) -> Result:
    """What all pairs of one load say."""
    return {
        "arms": {name: summary(found) for name, found in runs.items()},
        "time_of_clients": costs(runs, "seconds", starts=starts),
        "time_between_tokens": costs(runs, "token_milliseconds", starts=starts),
        "processor_time": costs(runs, "processor_milliseconds", starts=starts),
    }


def costs(runs: Mapping[str, Sequence[Run]], figure: str, *, starts: int = 1) -> dict[str, object]:
    """What each way to hold K=0 costs against no drafter and the other, and no drafter against its like."""
    values = {name: [float(getattr(run, figure)) for run in found] for name, found in runs.items()}
    values[BOTH] = [statistics.fmean(pair) for pair in zip(values[STOCK], values[AGAIN], strict=True)]
    return {
        f"{slower} against {faster}": relative_cost(values[slower], values[faster], starts=starts)
        for slower, faster in ((AGAIN, STOCK), (SYNC, BOTH), (SKIP, BOTH), (SYNC, SKIP))
        if slower in values and faster in values
    }


def summary(runs: Sequence[Run]) -> dict[str, object]:
    """Medians of one arm."""
    shares = [run.hook_share for run in runs if run.hook_share is not None]
    return {
        "tokens_per_second": round(statistics.median(run.tokens_per_second for run in runs), 2),
        "token_milliseconds": round(statistics.median(run.token_milliseconds for run in runs), 3),
        "processor_milliseconds": round(statistics.median(run.processor_milliseconds for run in runs), 3),
        "steps_skipped": sum(run.steps_skipped for run in runs),
        "hook_share_percent": round(100 * statistics.median(shares), 3) if shares else None,
    }


def main(arguments: Sequence[str]) -> None:
    """Compare, report."""
    given, started = parser("python -m tests.bench.k0", __doc__).parse_args(arguments), datetime.now(UTC)
    result = over_loads(
        given, ARMS[given.method], Bench(measure_time, conclude, partial(json.dumps, indent=1))
    )
    write(REPORTS / f"{given.method}.json", {**head("tests.bench.k0", arguments, started), **result})


if __name__ == "__main__":
    main(sys.argv[1:])
