"""Limits of series per namespace and model, and the grouping of pods into queries. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from outrider.telemetry.series import MAX_SERIES, PodKey

MAX_SERIES_TOGETHER = 500_000
"""Limit for all pods. 850 pods with 3 used batch bins have 190,000; 790 pods with all 9 bins 500,000."""

Models = Mapping[PodKey, str]
"""Pod -> its model, as a name within the pod's namespace."""

Series = Mapping[PodKey, int]
"""Pod -> number of its series."""

Batch = tuple[PodKey, ...]
"""Pods of one query, in the order of namespace, model and name."""

_Key = TypeVar("_Key", bound=Hashable)


def fair_shares(wants: Mapping[_Key, int], most: int) -> Mapping[_Key, int]:
    """Divide `most` max-min fairly: a key that wants less than an equal part gets all that it wants."""
    shares: dict[_Key, int] = {}
    left = most
    for index, key in enumerate(sorted(wants, key=lambda key: wants[key])):
        shares[key] = min(wants[key], left // (len(wants) - index))
        left -= shares[key]
    return shares


def left_out(series: Series, models: Models, *, most: int = MAX_SERIES_TOGETHER) -> Mapping[PodKey, str]:
    """Return the pods that are not read, with the reason.

    These are pods above the limit of one pod. If all pods together exceed `most`, namespaces divide it
    fairly, and so do the models of a namespace. A model above its part loses its largest pods.
    """
    why = {pod: too_many_series(count) for pod, count in series.items() if count > MAX_SERIES}
    rest = {pod: count for pod, count in series.items() if pod not in why}
    namespaces = _grouped(rest, lambda pod: pod.namespace)
    shares = fair_shares(_sums(namespaces), most)
    for namespace, pods in namespaces.items():
        by_model = _grouped(pods, lambda pod: models[pod])
        of_models = fair_shares(_sums(by_model), shares[namespace])
        for model, some in by_model.items():
            for pod in _largest_beyond(some, of_models[model]):
                why[pod] = (
                    f"{some[pod]} series, and {sum(some.values())} with the other pods of its model, which "
                    f"may have {of_models[model]}: the fleet exceeds the limit of {most}"
                )
    return why


def too_many_series(count: int) -> str:
    """Return the reason for a pod above the limit of one pod."""
    return f"{count} series exceed the limit of {MAX_SERIES}"


def batches(
    series: Series,
    models: Models,
    *,
    most_series: int,
    most_characters: int,
    never: Collection[PodKey] = (),
) -> Iterator[Batch]:
    """Group pods into few queries, each within the limits of series and of characters of names.

    A larger pod gets its own query. A query lists namespaces and pod names separately. So it may also match
    the namespace of one pod with the name of another, but never a pod of `never`.
    """
    batch: list[PodKey] = []
    for pod in in_order(series, models):
        longer = [*batch, pod]
        too_much = (
            sum(series[each] for each in longer) > most_series
            or sum(len(name) + 1 for each in longer for name in each) > most_characters
            or _takes_any(longer, never)
        )
        if batch and too_much:
            yield tuple(batch)
            longer = [pod]
        batch = longer
    if batch:
        yield tuple(batch)


def _takes_any(batch: Collection[PodKey], pods: Collection[PodKey]) -> bool:
    namespaces, names = {pod.namespace for pod in batch}, {pod.pod for pod in batch}
    return any(pod.namespace in namespaces and pod.pod in names for pod in pods)


def in_order(pods: Iterable[PodKey], models: Models) -> list[PodKey]:
    """Sort pods by namespace, model and name."""
    return sorted(pods, key=lambda pod: (pod.namespace, models[pod], pod.pod))


def halves(batch: Batch, models: Models) -> tuple[Batch, Batch]:
    """Split a batch of at least two pods, preferably between namespaces, or else between models."""
    for owner in (
        [pod.namespace for pod in batch],
        [(pod.namespace, models[pod]) for pod in batch],
        list(batch),
    ):
        at = _middle_cut(owner)
        if at is not None:
            return batch[:at], batch[at:]
    raise ValueError(f"{len(batch)} pods cannot be split")


def by_namespace(some: Iterable[Batch]) -> list[list[Batch]]:
    """Group batches by the namespace of their first pod, each in the given order."""
    queues: defaultdict[str, list[Batch]] = defaultdict(list)
    for batch in some:
        queues[batch[0].namespace].append(batch)
    return list(queues.values())


def by_turns(queues: Collection[Sequence[Batch]]) -> Iterator[Batch]:
    """Yield the first of each queue, then the second of each, and so on."""
    for index in range(max(map(len, queues), default=0)):
        yield from (queue[index] for queue in queues if index < len(queue))


def _middle_cut(owners: Sequence[object]) -> int | None:
    cuts = [at for at in range(1, len(owners)) if owners[at] != owners[at - 1]]
    return min(cuts, key=lambda at: abs(2 * at - len(owners)), default=None)


def _grouped(series: Series, name: Callable[[PodKey], str]) -> Mapping[str, dict[PodKey, int]]:
    groups: defaultdict[str, dict[PodKey, int]] = defaultdict(dict)
    for pod, count in series.items():
        groups[name(pod)][pod] = count
    return groups


def _sums(groups: Mapping[str, Series]) -> Mapping[str, int]:
    return {name: sum(series.values()) for name, series in groups.items()}


def _largest_beyond(series: Series, most: int) -> Iterator[PodKey]:
    """Yield the largest pods, until the others fit."""
    left = sum(series.values())
    for pod in sorted(series, key=lambda pod: (-series[pod], pod)):
        if left <= most:
            return
        left -= series[pod]
        yield pod
