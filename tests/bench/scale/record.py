"""``python -m tests.bench.scale.record NAME RESULT...``: the record of runs, its tables and its picture.

RESULT is a file of `tests.bench.scale`, of the operator or of the reference. The commit of the record is that
of the oldest one. A size that two files have counts from the later one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.controller.settings import MetricsSourceKind as Source
from outrider.pictures.charts import NARROW, Line, Panel, lines_chart, standalone
from tests.bench.records.record import RAW, ROOT, Record, Table
from tests.bench.scale.figures import exponent, ratios, shown
from tests.bench.scale.goals import GOALS, Measured, verdict
from tests.bench.scale.slow import AFTERWARDS, STEADY, Slow

PICTURE = ROOT / "docs" / "images" / "scale.svg"
DEPENDS = (
    "operator/outrider/cluster",
    "operator/outrider/controller",
    "operator/outrider/engine",
    "operator/outrider/rounds.py",
    "operator/outrider/telemetry",
    "operator/outrider/transport.py",
    "operator/outrider/tuning",
    *(
        f"tests/bench/scale/{part}"
        for part in ("engines.py", "node.py", "observed.py", "phases.py", "place.py")
    ),
    "tests/bench/scale/go",
)
BY_SIZE = {
    "creation: all Deployments, s": "created at once: all Deployments, s",
    "creation: all Ready and pushed, s": "created at once: all Ready and pushed, s",
    "creation: CPU, s": "created at once: CPU, s",
    "creation: writes per model until Ready": "created at once: writes per model until Ready",
    "creation: longest block of the loop, s": "created at once: longest block of the loop, s",
    "creation: cores of API server and etcd": "created at once: cores of API server and etcd",
    "steady: cores": "cores",
    "steady: CPU per scrape, ms": "CPU per pod and scrape, ms",
    "steady: tick, median, s": "tick, median, s",
    "steady: tick, longest, s": "tick, longest, s",
    "steady: longest block of the loop, s": "longest block of the loop, s",
    "steady: longest garbage collection, s": "longest garbage collection, s",
    "steady: push p50, s": "push p50, s",
    "steady: push p99, s": "push p99, s",
    "steady: pushes per pod and minute": "pushes per pod and minute",
    "steady: failed pushes": "failed pushes",
    "steady: lapsed leases": "lapsed leases",
    "steady: writes per model and minute": "writes per model and minute",
    "steady: peak of memory, MiB": "peak of memory, MiB",
    "restart: all engines renewed, s": "restart: all engines renewed, s",
    "restart: lapsed leases": "restart: lapsed leases",
    "crash: all engines renewed, s": "crash: all engines renewed, s",
    "crash: lapsed leases": "crash: lapsed leases",
    "steady: load average of the machine": "load average of the machine",
}
"""Names in a result, and in tables."""
_PANELS = (
    ("steady: cores", "cores", 0.5),
    ("steady: tick, median, s", "tick, s", 5.0),
    ("steady: longest block of the loop, s", "longest block of the loop, s", 0.2),
    ("steady: peak of memory, MiB", "memory, MiB", 400.0),
    ("creation: all Deployments, s", "created at once: all Deployments, s", None),
)
"""Figure, title and goal."""


def measured(results: Sequence[Mapping[str, Any]]) -> Measured:
    """The sizes of all results, by what was measured. A later result replaces the figures that it has."""
    found: dict[tuple[str, str, str, int], dict[int, Mapping[str, float | None]]] = {}
    for result in results:
        options = result["options"]
        key = result["of"], options["source"], options["slow"], options["shards"]
        for size in result["sizes"]:
            sizes, models = found.setdefault(key, {}), int(size["models"])
            sizes[models] = {**sizes.get(models, {}), **size}
    return Measured(found)


def tables(runs: Measured) -> list[Table]:
    """Goals; the operator by size, with PodScrape and with Prometheus; Go; slow parts; shards; users."""
    return [
        Table(
            columns=["goal at 1,000 models", "limit", "measured"],
            rows=[[goal.name, goal.limit, verdict(goal, runs)] for goal in GOALS],
        ),
        _by_size(runs.operator(), "PodScrape"),
        _by_size(runs.operator(Source.PROMETHEUS), "Prometheus"),
        _beside_reference(runs),
        _slow(runs),
        _shards(runs),
        _users(runs),
    ]


def _by_size(sizes: Mapping[int, Mapping[str, float | None]], source: str) -> Table:
    rows = []
    for figure, title in BY_SIZE.items():
        values = {models: sizes[models].get(figure) for models in sorted(sizes)}
        known = {models: value for models, value in values.items() if value is not None}
        if known:
            rows.append([title, *(shown(value) for value in values.values()), shown(exponent(known))])
    return Table(columns=[f"models, {source}", *(f"{n:,}" for n in sorted(sizes)), "exponent"], rows=rows)


def _beside_reference(runs: Measured) -> Table:
    """Creation by the operator and by the controller in Go."""
    operator, reference = runs.operator(), runs.reference()
    rows = []
    for models in sorted(set(operator) & set(reference)):
        ours, go = operator[models], reference[models]
        pairs = (
            ("all Deployments, s", "creation: all Deployments, s", "reference: all Deployments, s"),
            ("CPU, s", "creation: CPU, s", "reference: CPU, s"),
            ("writes per model", "creation: writes per model", "reference: writes per model"),
            ("peak of memory, MiB", "steady: peak of memory, MiB", "reference: peak of memory, MiB"),
        )
        for title, own, other in pairs:
            a, b = ours.get(own), go.get(other)
            ratio = shown(a / b) if a is not None and b else shown(None)
            rows.append([f"{models:,} models: {title}", shown(a), shown(b), ratio])
    return Table(columns=["created at once", "operator", "reference in Go", "ratio"], rows=rows)


def _slow(runs: Measured) -> Table:
    """What becomes slow, and each figure beside the normal times before it and after it."""
    kinds = [slow for slow in Slow if slow is not Slow.NOTHING and runs.operator(slow=slow)]
    compared = {}
    for slow in kinds:
        sizes = runs.operator(slow=slow)
        compared[slow] = ratios(sizes[max(sizes)], f"slow {slow}", (STEADY, AFTERWARDS))
    named = [figure.removeprefix("steady: ") for figure in BY_SIZE if kinds and figure.startswith("steady: ")]
    rows = [[BY_SIZE[f"steady: {f}"], *(shown(compared[slow].get(f)) for slow in kinds)] for f in named]
    heads = [f"{slow}, {max(runs.operator(slow=slow)):,} models" for slow in kinds]
    return Table(columns=["ratio to normal", *heads], rows=rows)


def _shards(runs: Measured) -> Table:
    """Each process of several, beside one process with the same models."""
    rows = []
    for shards in runs.shards():
        for models, found in sorted(runs.operator(shards=shards).items()):
            one = runs.operator().get(models, {}).get("steady: cores")
            for number in range(1, shards + 1):
                cores = found[f"steady: cores of process {number}"]
                rows.append(
                    [
                        f"{models:,}, {number} of {shards}",
                        shown(found[f"steady: models of process {number}"]),
                        shown(cores),
                        shown(cores / one if one and cores is not None else None),
                        shown(found[f"steady: tick of process {number}, median, s"]),
                        shown(found[f"steady: peak of memory of process {number}, MiB"]),
                    ]
                )
    columns = ["models, process", "its models", "cores", "of one process's cores", "tick, s", "memory, MiB"]
    return Table(columns=columns, rows=rows)


def _users(runs: Measured) -> Table:
    """What users notice, by size."""
    rows = []
    prometheus = runs.operator(Source.PROMETHEUS)
    for models, found in sorted(runs.operator().items()):
        other = prometheus.get(models, {})
        rows.append(
            [
                f"{models:,}",
                shown(found.get("steady: cores")),
                f"{shown(found.get('steady: peak of memory, MiB'))}"
                f" / {shown(other.get('steady: peak of memory, MiB'))}",
                f"{shown(found.get('steady: tick, median, s'))}"
                f" / {shown(other.get('steady: tick, median, s'))}",
                shown(found.get("creation: all Ready and pushed, s")),
                f"{shown(found.get('restart: all engines renewed, s'))}"
                f" / {shown(found.get('crash: all engines renewed, s'))}",
            ]
        )
    columns = [
        "models",
        "cores",
        "memory, MiB, PodScrape / Prometheus",
        "tick, s, PodScrape / Prometheus",
        "created at once: ready after s",
        "renewed after a restart / a crash, s",
    ]
    return Table(columns=columns, rows=rows)


def picture(runs: Measured) -> str:
    """What an operator needs by the number of models, with the goals of 1,000, as wide as a phone."""
    panels = []
    for figure, title, goal in _PANELS:
        lines = [Line("operator", points) for points in [_points(runs.operator(), figure)] if points]
        if figure.startswith("steady"):
            with_prometheus = _points(runs.operator(Source.PROMETHEUS), figure)
            lines += [Line("operator, Prometheus", with_prometheus)] if len(with_prometheus) > 1 else []
        else:
            reference = _points(runs.reference(), figure.replace("creation", "reference"))
            lines += [Line("controller in Go", reference)] if reference else []
        if goal is not None:
            ends = [x for line in lines for x, _ in line.points]
            lines.append(Line("goal at 1,000", [(min(ends), goal), (max(ends), goal)], dashed=True))
        panels.append(Panel(title, lines))
    words = "Cores, tick, longest block, memory and time of creation of one operator, by models, with goals"
    return standalone(lines_chart(panels, axis="models of three pods", alt=words, width=NARROW))


def _points(sizes: Mapping[int, Mapping[str, float | None]], figure: str) -> list[tuple[float, float]]:
    found = ((models, sizes[models].get(figure)) for models in sorted(sizes))
    return [(float(models), value) for models, value in found if value is not None]


def record_of(results: Sequence[Mapping[str, Any]], name: str) -> Record:
    """The record of these results.

    Raises:
        ValueError: one is of a tree with changes.
    """
    commits = list(dict.fromkeys(result["commit"] for result in results))
    dirty = [commit for commit in commits if not commit.isalnum()]
    if dirty:
        raise ValueError(f"commit before a run that is published; not so: {', '.join(dirty)}")
    runs, cores = measured(results), results[-1]["machine"]["cores"]
    loads = list(runs.values("load average of the machine"))
    others = f" Later runs: {', '.join(commits[1:])}." if commits[1:] else ""
    return Record(
        name=name,
        date=results[-1]["date"][:10],
        commit=commits[0],
        command="; ".join(result["command"] for result in results),
        shown="unit, with a real API server: etcd, controllers of Deployments and the operator's process are"
        " real, kubelet and engines are played",
        machine=f"{cores} cores, which the API server, etcd and the played engines share with the operator",
        interval="none: one run of each size",
        limits=f"Everything runs on {cores} cores, with a load average of {min(loads):.0f} to"
        f" {max(loads):.0f}. CPU time is comparable, and durations only roughly.{others}",
        depends=DEPENDS,
        script="python -m tests.bench.scale.record",
        tables=tables(runs),
        raw=f"{name}{RAW}",
    )


def _made(command: str) -> str:
    """A command without the places of its files."""
    kept: list[str] = []
    for word in command.split():
        if kept and kept[-1] == "--json":
            kept.pop()
        elif kept and kept[-1] == "--reference":
            kept.append("PROGRAM")
        else:
            kept.append(word)
    return " ".join(kept)


def main(arguments: Sequence[str]) -> None:
    """Write record, results and picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale.record", description=__doc__)
    parser.add_argument("name", help="such as 2026-12-01-scale")
    parser.add_argument("results", nargs="+", type=Path, help="such as out/bench/scale.json")
    options = parser.parse_args(arguments)
    read = (json.loads(file.read_text(encoding="utf-8")) for file in options.results)
    results = sorted(read, key=lambda result: result["date"])
    for result in results:
        result["command"] = _made(result["command"])
    record_of(results, options.name).write_with({"runs": results})
    PICTURE.write_text(picture(measured(results)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
