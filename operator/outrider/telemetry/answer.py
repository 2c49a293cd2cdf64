"""Conversion of Prometheus answers into samples per pod. Pure.

The reader skips and reports a row that it cannot parse, and it skips a pod with too many rows. Neither
affects the rows of another pod.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated

from pydantic import FailFast, TypeAdapter, ValidationError

from outrider.api.validation_message import first_validation_message
from outrider.telemetry.budget import too_many_series
from outrider.telemetry.replicas import one_copy
from outrider.telemetry.series import (
    MAX_SAMPLES,
    MAX_SERIES,
    LabelError,
    PodKey,
    PodMetrics,
    Samples,
    SeriesKey,
    Unreadable,
    pod_series,
    series_key,
)
from outrider.telemetry.source import AnswerMalformed, Skipped


@dataclass(frozen=True, slots=True)
class Answer:
    """The parsed contents of one answer, by pod."""

    pods: Mapping[PodKey, PodMetrics]
    skipped: Mapping[PodKey, Skipped]  # of pods with rows that cannot be parsed
    rows: Mapping[PodKey, int]
    copied: Mapping[PodKey, tuple[str, ...]]  # of pods with rows of several replicas: the labels that differ


@dataclass(frozen=True, slots=True)
class _Named:
    metric: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Row(_Named):
    values: Annotated[list[tuple[float, float]], FailFast()]  # a million errors would take gigabytes


@dataclass(frozen=True, slots=True)
class _Count(_Named):
    value: tuple[float, float]


_NAMED, _ROW, _COUNT = TypeAdapter(_Named), TypeAdapter(_Row), TypeAdapter(_Count)


@dataclass(slots=True)
class _Target:
    """Rows that one job scraped from a pod."""

    rows: list[_Row] = field(default_factory=list)
    skipped: Skipped = field(default_factory=Skipped)
    copied: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        return sum(len(row.values) for row in self.rows)

    @property
    def newest(self) -> float:
        return max((row.values[-1][0] for row in self.rows if row.values), default=0.0)


_Targets = dict[tuple[str, str], _Target]  # by job and instance


def read_answer(result: object, wanted: Container[PodKey] | None = None) -> Answer:
    """Return samples per pod from `data.result` of a range-vector query.

    wanted: pods whose rows are kept; None: all pods.

    Values that are not finite are skipped: without a sample the tuner holds, with a wrong one it errs.
    A pod that several jobs scrape counts once.

    Raises:
        AnswerMalformed: not a range vector, or no row has the labels of a pod.
    """
    if not isinstance(result, list):
        raise _not_a_range_vector("no list")
    pods: defaultdict[PodKey, _Targets] = defaultdict(dict)
    problem = ""
    for raw in result:
        labels, row, complaint = _read(raw)
        problem = problem or complaint
        if not (labels.get("namespace") and labels.get("pod")):
            continue
        pod = PodKey(labels["namespace"], labels["pod"])
        if wanted is not None and pod not in wanted:
            continue
        targets = pods[pod]
        target = targets.setdefault((labels.get("job", ""), labels.get("instance", "")), _Target())
        if row is None:
            target.skipped.add(labels.get("__name__", ""), complaint)
        else:
            target.rows.append(row)
    if result and not pods and wanted is None:
        raise _not_a_range_vector(problem) if problem else _without_labels()
    rows = {pod: sum(len(target.rows) for target in targets.values()) for pod, targets in pods.items()}
    chosen = {pod: _freshest(targets) for pod, targets in pods.items()}
    found = {pod: _series(target) for pod, target in chosen.items()}
    return Answer(
        found,
        skipped={pod: target.skipped for pod, target in chosen.items() if target.skipped.count},
        rows=rows,
        copied={pod: target.copied for pod, target in chosen.items() if target.copied},
    )


def read_counts(result: object) -> Mapping[PodKey, int]:
    """Return the number of series per pod from `data.result` of an instant query by namespace and pod."""
    counts: dict[PodKey, int] = {}
    for raw in result if isinstance(result, list) else []:
        try:
            row = _COUNT.validate_python(raw)
        except ValidationError:
            continue
        if isfinite(row.value[1]):
            counts[PodKey(row.metric.get("namespace", ""), row.metric.get("pod", ""))] = int(row.value[1])
    return counts


def _read(raw: object) -> tuple[Mapping[str, str], _Row | None, str]:
    """Return the labels, if any, and either the row or what is wrong with it."""
    try:
        row = _ROW.validate_python(raw)
    except ValidationError as error:
        return _labels(raw), None, first_validation_message(error, whole="row")
    except Exception as error:  # noqa: BLE001 - isolation: a row must not hide those of other pods
        return _labels(raw), None, f"cannot be parsed ({type(error).__name__})"
    return row.metric, row, ""


def _labels(raw: object) -> Mapping[str, str]:
    try:
        return _NAMED.validate_python(raw).metric
    except ValidationError:
        return {}


def _freshest(targets: _Targets) -> _Target:
    """Return the target with the newest sample, or else with more samples.

    Two jobs that scrape one pod would double every counter.
    """
    return targets[max(targets, key=lambda name: (targets[name].newest, targets[name].samples, name))]


def _series(target: _Target) -> PodMetrics:
    if len(target.rows) > MAX_SERIES:
        return Unreadable(too_many_series(len(target.rows)))
    if target.samples > MAX_SAMPLES:
        return Unreadable(
            f"{target.samples} samples exceed the limit of {MAX_SAMPLES}; check its scrape interval"
        )
    try:
        target.rows, target.copied = one_copy(target.rows)
        series = pod_series(_keyed(target))
    except Exception as error:  # noqa: BLE001 - isolation: a pod must not hide the others
        return Unreadable(f"its samples cannot be combined ({type(error).__name__})")
    return Unreadable(str(target.skipped)) if target.skipped.of_engine else series


def _keyed(target: _Target) -> Iterator[tuple[SeriesKey, Samples]]:
    for row in target.rows:
        name = row.metric.get("__name__", "")
        try:
            key = series_key(name, row.metric)
        except LabelError as error:
            target.skipped.add(name, str(error))
            continue
        if key is not None:
            yield key, {at: value for at, value in row.values if isfinite(at) and isfinite(value)}


def _not_a_range_vector(problem: str) -> AnswerMalformed:
    return AnswerMalformed(
        f"not a range vector: {problem}", action="Check that the URL is that of Prometheus."
    )


def _without_labels() -> AnswerMalformed:
    return AnswerMalformed(
        "no series has the labels namespace and pod",
        action="Relabel targets so that they carry namespace, pod and outrider_dev_model.",
    )
