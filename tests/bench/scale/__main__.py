"""``python -m tests.bench.scale``: creation, steady work and a restart of one operator with many models."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import results
from tests.bench.scale.figures import quantile, table
from tests.bench.scale.place import REPLICAS, Operator, Place, Source, a_place, an_operator, writes

Figures = dict[str, float | None]
_LIMIT_SECONDS = 1800.0
"""For each of creation and restart. 300 models take 160 s on two cores."""
_TOLD_SECONDS = 30.0


def _until(what: str, wanted: int, seen: Callable[[], int]) -> float | None:
    """Seconds until so many are seen; None if there are not within the limit. It prints how far it is."""
    began = printed = time.monotonic()
    while (now := time.monotonic()) - began < _LIMIT_SECONDS:
        found = seen()
        if found >= wanted:
            return now - began
        if now - printed >= _TOLD_SECONDS:
            print(f"{what}: {found} of {wanted} after {now - began:.0f} s", flush=True)
            printed = now
        # A look takes time of the machine that is measured.
        time.sleep(max(0.5, wanted / 500))
    return None


def creation(place: Place, operator: Operator, models: int) -> Figures:
    """Create so many models at once, and wait until all are ready and pushed."""
    began, before = time.time(), operator.usage()
    place.create_models(models)
    deployed = _until("Deployments", models, place.deployments)
    pushed = _until("engines with a push", REPLICAS * models, lambda: place.node()["since_mark"])
    ready = _until("ready models", models, place.ready_models)
    until = time.time()
    time.sleep(3)  # The API server writes the audit log in batches.
    requests = place.requests(began, until)
    print("creation, requests per model:", {k: round(v / models, 1) for k, v in requests.most_common()})
    return {
        "creation: all Deployments, s": None if deployed is None else deployed,
        "creation: all Ready and pushed, s": None if None in (ready, pushed) else until - began,
        "creation: CPU, s": operator.usage().cpu - before.cpu,
        "creation: writes per model": writes(requests) / models,
        "creation: writes per model until Ready": _mean(place.writes_until_ready(began)),
        "creation: longest block of the loop, s": _latest(operator, began, until),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _steady(place: Place, operator: Operator, models: int, seconds: float) -> Figures:
    began, before, node = time.time(), operator.usage(), place.node()
    time.sleep(seconds)
    until, after, now = time.time(), operator.usage(), place.node()
    time.sleep(3)
    requests = place.requests(began, until)
    print("steady, requests per model:", {k: round(v / models, 1) for k, v in requests.most_common()})
    pushes = _timed(operator, "push", began, until)
    took = [seconds for seconds, _ in pushes]
    ticks = [seconds for seconds, _ in _timed(operator, "tick", began, until)]
    minutes, scrapes = (until - began) / 60, now["scrapes"] - node["scrapes"]
    return {
        "steady: cores": (after.cpu - before.cpu) / (until - began),
        "steady: CPU per scrape, ms": 1e3 * (after.cpu - before.cpu) / max(1, scrapes),
        "steady: tick, median, s": quantile(ticks, 0.5),
        "steady: longest block of the loop, s": _latest(operator, began, until),
        "steady: push p50, s": quantile(took, 0.5),
        "steady: push p99, s": quantile(took, 0.99),
        "steady: pushes per pod and minute": (now["puts"] - node["puts"]) / models / REPLICAS / minutes,
        "steady: scrapes per pod and minute": (now["scrapes"] - node["scrapes"])
        / models
        / REPLICAS
        / minutes,
        "steady: failed pushes": float(sum(failed for _, failed in pushes)),
        "steady: lapsed leases": float(now["lapses"] - node["lapses"]),
        "steady: writes per model and minute": writes(requests) / models / minutes,
        "peak of memory, MiB": after.peak,
    }


def _restart(place: Place, models: int) -> Figures:
    began, before = time.time(), place.node()
    place.mark()
    with an_operator(place, "restarted"):
        _until("engines with a push", REPLICAS * models, lambda: place.node()["since_mark"])
        after = place.node()
    renewed = after["last_first_push"] if after["since_mark"] >= REPLICAS * models else None
    return {
        "restart: all engines renewed, s": renewed,
        "restart: lapsed leases": float(after["lapses"] - before["lapses"]),
        "restart: requests per model": place.requests(began, time.time()).total() / models,
    }


def _timed(operator: Operator, kind: str, since: float, until: float) -> list[tuple[float, bool]]:
    return [(took, failed) for line in operator.seen(since, until) for took, failed in line.get(kind, ())]


def _latest(operator: Operator, since: float, until: float) -> float | None:
    return max((line["late"] for line in operator.seen(since, until)), default=None)


def measure(models: int, *, settle: float, steady: float, source: Source) -> Figures:
    """One size, on an API server of its own. settle, steady: seconds."""
    found: Figures = {"models": float(models)}
    with tempfile.TemporaryDirectory(prefix="scale-") as folder, a_place(Path(folder), source) as place:
        with an_operator(place, "operator") as operator:
            place.mark()
            found |= creation(place, operator, models)
            time.sleep(settle)
            found |= _steady(place, operator, models, steady)
            operator.stop()
        found |= _restart(place, models)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="30,100,300", help="sizes, separated by commas")
    parser.add_argument(
        "--settle", type=float, default=30.0, help="seconds from the last push to the measurement"
    )
    parser.add_argument("--steady", type=float, default=60.0, help="seconds of the measurement")
    parser.add_argument(
        "--source",
        type=Source,
        choices=list(Source),
        default=Source.POD_SCRAPE,
        help="of the operator's metrics",
    )
    parser.add_argument("--json", type=Path, default=Path("out/bench/scale.json"), help="file of the result")
    options = parser.parse_args()
    began = datetime.now(UTC)
    records = []
    for models in map(int, options.models.split(",")):
        records.append(measure(models, settle=options.settle, steady=options.steady, source=options.source))
        print(table(records), flush=True)
        head = results.head("tests.bench.scale", sys.argv[1:], began)
        results.write(options.json, {**head, "sizes": records})


if __name__ == "__main__":
    main()
