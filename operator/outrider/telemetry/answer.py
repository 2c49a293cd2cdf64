"""Prometheus' range vector -> samples per pod. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from pydantic import TypeAdapter, ValidationError

from outrider.telemetry.series import PodKey, PodSeries, Samples, SeriesKey, pod_series, series_key
from outrider.telemetry.source import AnswerMalformed


@dataclass(frozen=True, slots=True)
class _Row:
    metric: dict[str, str]
    values: list[tuple[float, float]]


_ROWS = TypeAdapter(list[_Row])

Target = tuple[str, str]  # job, instance


def read_answer(result: object) -> dict[PodKey, PodSeries]:
    """Samples per pod from `data.result` of a range-vector query.

    Values that are not finite are left out: a missing sample holds, a wrong one steers.
    A pod that several jobs scrape counts once.

    Raises:
        AnswerMalformed: not a range vector, or no row says which pod it belongs to.
    """
    try:
        rows = _ROWS.validate_python(result)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise AnswerMalformed(
            f"not a range vector: {where}: {first['msg']}",
            action="Check that the URL is the one of Prometheus.",
        ) from error
    named = [row for row in rows if row.metric.get("namespace") and row.metric.get("pod")]
    if rows and not named:
        raise AnswerMalformed(
            "no series has the labels namespace and pod",
            action="Relabel targets so that they carry namespace, pod and outrider_dev_model.",
        )
    pods: defaultdict[PodKey, defaultdict[Target, list[_Row]]] = defaultdict(lambda: defaultdict(list))
    for row in named:
        target = (row.metric.get("job", ""), row.metric.get("instance", ""))
        pods[PodKey(row.metric["namespace"], row.metric["pod"])][target].append(row)
    return {pod: pod_series(_keyed(_freshest(targets))) for pod, targets in pods.items()}


def _freshest(targets: Mapping[Target, list[_Row]]) -> list[_Row]:
    """The target with the newest sample, then the most; two jobs on one pod would double every counter."""

    def rank(target: Target) -> tuple[float, int, Target]:
        times = [row.values[-1][0] for row in targets[target] if row.values]
        return max(times, default=0.0), sum(len(row.values) for row in targets[target]), target

    return targets[max(targets, key=rank)]


def _keyed(rows: Iterable[_Row]) -> Iterator[tuple[SeriesKey, Samples]]:
    for row in rows:
        key = series_key(row.metric.get("__name__", ""), row.metric)
        if key is not None:
            yield key, {at: value for at, value in row.values if isfinite(at) and isfinite(value)}
