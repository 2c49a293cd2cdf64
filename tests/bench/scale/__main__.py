"""``python -m tests.bench.scale``: creation, steady work and a restart of one operator with many models."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import results
from tests.bench.scale.figures import quantile, table
from tests.bench.scale.place import REPLICAS, Operator, Place, a_place, an_operator, writes

Figures = dict[str, float | None]
_LIMIT_SECONDS = 900.0


def _until(seconds: float, reached: Callable[[], bool]) -> float | None:
    """Seconds until it is so; None if it is not within this time."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if reached():
            return time.monotonic() - began
        time.sleep(0.5)
    return None


def _creation(place: Place, operator: Operator, models: int) -> Figures:
    began, before = time.time(), operator.usage()
    place.create_models(models)
    deployed = _until(_LIMIT_SECONDS, lambda: place.deployments() >= models)
    ready = _until(_LIMIT_SECONDS, lambda: place.ready_models() >= models)
    pushed = _until(_LIMIT_SECONDS, lambda: place.node()["since_mark"] >= REPLICAS * models)
    until = time.time()
    time.sleep(3)  # The API server writes the audit log in batches.
    requests = place.requests(began, until)
    print("creation, requests per model:", {k: round(v / models, 1) for k, v in requests.most_common()})
    return {
        "creation: all Deployments, s": None if deployed is None else deployed,
        "creation: all Ready and pushed, s": None if None in (ready, pushed) else until - began,
        "creation: CPU, s": operator.usage().cpu - before.cpu,
        "creation: writes per model": writes(requests) / models,
        "creation: longest block of the loop, s": _latest(operator, began, until),
    }


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
        _until(_LIMIT_SECONDS, lambda: place.node()["since_mark"] >= REPLICAS * models)
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


def measure(models: int, *, settle: float, steady: float) -> Figures:
    """One size, on an API server of its own. settle, steady: seconds."""
    found: Figures = {"models": float(models)}
    with tempfile.TemporaryDirectory(prefix="scale-") as folder, a_place(Path(folder)) as place:
        with an_operator(place, "operator") as operator:
            place.mark()
            found |= _creation(place, operator, models)
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
    parser.add_argument("--json", type=Path, default=Path("out/bench/scale.json"), help="file of the result")
    options = parser.parse_args()
    began = datetime.now(UTC)
    records = []
    for models in map(int, options.models.split(",")):
        records.append(measure(models, settle=options.settle, steady=options.steady))
        print(table(records), flush=True)
        head = results.head("tests.bench.scale", sys.argv[1:], began)
        results.write(options.json, {**head, "sizes": records})


if __name__ == "__main__":
    main()
