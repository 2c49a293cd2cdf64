"""The parts of a run: creation of all models, a steady time, and another leader. Each returns its figures."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench.scale.figures import Figures, quantile
from tests.bench.scale.operators import Operator, Usage, end
from tests.bench.scale.place import REPLICAS, Place, reads, writes
from tests.bench.scale.waits import until

_AUDIT_SECONDS = 3.0
"""The API server writes the audit log in batches."""


class _Spent:
    """CPU time of all parts since this moment."""

    def __init__(self, place: Place, operators: Sequence[Operator]) -> None:
        self._place = place
        self._operators = operators
        self.began = time.time()
        self._before = [each.usage() for each in operators]
        self._beside = place.cpu()

    def figures(self, name: str) -> Figures:
        """Cores of the other parts, and the load of the machine, which include this run."""
        seconds, now = time.time() - self.began, self._place.cpu()
        beside: Figures = {
            f"{name}: cores of {part}": (now[part] - before) / seconds
            for part, before in self._beside.items()
            if now[part]
        }
        return {**beside, f"{name}: load average of the machine": os.getloadavg()[0]}

    def by_process(self) -> list[Usage]:
        """Each process: seconds of CPU since then, and its peak."""
        now = [each.usage() for each in self._operators]
        return [Usage(b.cpu - a.cpu, b.peak) for a, b in zip(self._before, now, strict=True)]

    @property
    def cpu(self) -> float:
        """Seconds of all processes of the operator."""
        return sum(each.cpu for each in self.by_process())


def creation(place: Place, operators: Sequence[Operator], models: int) -> Figures:
    """Create so many models at once, and wait until all are ready and pushed."""
    spent = _Spent(place, operators)
    began = spent.began
    place.create_models(models)
    deployed = until("Deployments", models, place.deployments)
    pushed = until("engines with a push", REPLICAS * models, lambda: place.node()["since_mark"])
    ready = until("ready models", models, place.ready_models)
    ended, cpu, beside = time.time(), spent.cpu, spent.figures("creation")
    time.sleep(_AUDIT_SECONDS)
    requests = place.requests(began, ended)
    print("creation, requests per model:", {k: round(v / models, 1) for k, v in requests.most_common()})
    return {
        "creation: all Deployments, s": deployed,
        "creation: all Ready and pushed, s": None if None in (ready, pushed) else ended - began,
        "creation: CPU, s": cpu,
        "creation: CPU per pod, ms": 1e3 * cpu / models / REPLICAS,
        "creation: writes per model": writes(requests) / models,
        "creation: writes per model until Ready": _mean(place.writes_until_ready(began)),
        "creation: reads per model": reads(requests) / models,
        "creation: longest block of the loop, s": _latest(operators, began, ended),
        "creation: longest garbage collection, s": _collections(operators, began, ended)[0],
        **beside,
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def steady_work(
    place: Place,
    operators: Sequence[Operator],
    models: int,
    seconds: float,
    name: str,
    *,
    others: bool = False,
) -> Figures:
    """So many seconds with models that are ready.

    name: of these figures. others: pushes and engines without those of the first model.
    """
    spent, node = _Spent(place, operators), place.node(others=others)
    began = spent.began
    time.sleep(seconds)
    ended, used, now = time.time(), spent.by_process(), place.node(others=others)
    cpu, beside = sum(each.cpu for each in used), spent.figures(name)
    time.sleep(_AUDIT_SECONDS)
    requests = place.requests(began, ended)
    print(f"{name}, requests per model:", {k: round(v / models, 1) for k, v in requests.most_common()})
    without = set(now["of_first_model"])
    pushes = [each for each in _timed(operators, "push", began, ended) if not (others and each[2] in without)]
    took = [seconds for seconds, failed, _ in pushes if not failed]
    ticks = [each[0] for each in _timed(operators, "tick", began, ended)]
    longest, collecting = _collections(operators, began, ended)
    minutes, scrapes = (ended - began) / 60, now["scrapes"] - node["scrapes"]
    pod_minutes = (models - int(others)) * REPLICAS * minutes
    return {
        f"{name}: cores": cpu / (ended - began),
        f"{name}: CPU per scrape, ms": 1e3 * cpu / max(1, scrapes),
        f"{name}: CPU per pod and minute, ms": 1e3 * cpu / models / REPLICAS / minutes,
        f"{name}: tick, median, s": quantile(ticks, 0.5),
        f"{name}: tick, longest, s": max(ticks, default=None),
        f"{name}: longest block of the loop, s": _latest(operators, began, ended),
        f"{name}: longest garbage collection, s": longest,
        f"{name}: share of garbage collections, %": 100 * collecting / (ended - began) / len(operators),
        f"{name}: push p50, s": quantile(took, 0.5),
        f"{name}: push p99, s": quantile(took, 0.99),
        f"{name}: pushes per pod and minute": (now["puts"] - node["puts"]) / pod_minutes,
        f"{name}: scrapes per pod and minute": scrapes / pod_minutes,
        f"{name}: failed pushes": float(sum(failed for _, failed, _ in pushes)),
        f"{name}: lapsed leases": float(now["lapses"] - node["lapses"]),
        f"{name}: reads at the API server": float(reads(requests)),
        f"{name}: writes per model and minute": writes(requests) / models / minutes,
        f"{name}: peak of memory, MiB": max(each.peak for each in used),
        **_by_process(operators, used, began, ended, name),
        **beside,
    }


def _by_process(
    operators: Sequence[Operator], used: Sequence[Usage], began: float, ended: float, name: str
) -> Figures:
    """What each of several processes did and used."""
    found: Figures = {}
    if len(operators) == 1:
        return found
    for number, (operator, usage) in enumerate(zip(operators, used, strict=True), 1):
        pods = {where for _, _, where in operator.timed("push", began, ended)}
        ticks = [each[0] for each in operator.timed("tick", began, ended)]
        found |= {
            f"{name}: models of process {number}": len(pods) / REPLICAS,
            f"{name}: cores of process {number}": usage.cpu / (ended - began),
            f"{name}: tick of process {number}, median, s": quantile(ticks, 0.5),
            f"{name}: peak of memory of process {number}, MiB": usage.peak,
        }
    return found


def other_leader(
    place: Place,
    operators: Sequence[Operator],
    models: int,
    name: str,
    how: signal.Signals,
    start: Callable[[], Sequence[Operator]],
) -> tuple[Sequence[Operator], Figures]:
    """End the operator, start it again, and wait until all engines have a renewed schedule.

    name: of these figures. how: SIGTERM, or SIGKILL, after which the Lease has to run out. start: returns
    the new processes.
    """
    before = place.node()
    end(operators, how)
    began = time.time()
    place.mark()
    restarted = start()
    until("engines with a push", REPLICAS * models, lambda: place.node()["since_mark"])
    after = place.node()
    renewed = after["last_first_push"] if after["since_mark"] >= REPLICAS * models else None
    return restarted, {
        f"{name}: all engines renewed, s": renewed,
        f"{name}: lapsed leases": float(after["lapses"] - before["lapses"]),
        f"{name}: requests per model": place.requests(began, time.time()).total() / models,
        f"{name}: load average of the machine": os.getloadavg()[0],
    }


def _timed(operators: Sequence[Operator], kind: str, since: float, until: float) -> list[list[Any]]:
    return [each for operator in operators for each in operator.timed(kind, since, until)]


def _collections(operators: Sequence[Operator], since: float, until: float) -> tuple[float, float]:
    """The seconds of the longest garbage collection, and the seconds of CPU of all of them."""
    found = _timed(operators, "gc", since, until)
    return max((each[0] for each in found), default=0.0), sum(each[2] for each in found)


def _latest(operators: Sequence[Operator], since: float, until: float) -> float | None:
    return max((line["late"] for each in operators for line in each.seen(since, until)), default=None)
