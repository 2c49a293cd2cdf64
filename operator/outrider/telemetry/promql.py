"""PromQL queries with one selector, for all engine pods or for named ones. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable

from outrider.runtimes import dialects
from outrider.telemetry.series import PodKey

_NO_NAMESPACE, _NO_POD = ',namespace=""', ',pod=""'
_OF_A_MODEL = ',outrider_dev_model!=""'
"""Pods of another owner lack this label, so queries that name pods do without it."""


def query(
    lookback_seconds: float, pods: Collection[PodKey] | None = None, *, histograms: bool = False
) -> str:
    """Return PromQL for the raw samples of these engine pods; None: all pods.

    histograms: whether those of latencies are read as well.
    """
    return f"{selector(_named(pods), histograms=histograms)}[{round(lookback_seconds * 1000)}ms]"


def counting(pods: Collection[PodKey] | None = None) -> str:
    """Return PromQL for the number of series of each of these engine pods; None: all pods."""
    return f"count by (namespace, pod) ({selector(_named(pods))})"


def unlabelled() -> str:
    """Return PromQL for the number of series without the labels of a pod; its result may be empty."""
    return f"count({selector(_OF_A_MODEL + _NO_NAMESPACE)} or {selector(_OF_A_MODEL + _NO_POD)})"


def selector(more: str = "", *, histograms: bool = False) -> str:
    """Return the selector of all used metrics, with only the rows of them that are used.

    more: label matchers, each after a comma. histograms: whether those of latencies are selected as well.
    """
    used = dialects()
    by_prefix: defaultdict[str, list[str]] = defaultdict(list)
    for name in (*used.names, *(sorted(used.histograms) if histograms else ())):
        prefix, colon, rest = name.rpartition(":")
        by_prefix[prefix + colon].append(rest)
    names = "|".join(f"{prefix}({'|'.join(sorted(rest))})" for prefix, rest in by_prefix.items())
    only = "".join(f',{label}=~"|{value}"' for label, value in used.only.items())
    return f'{{__name__=~"{names}"{more}{only}}}'


def _named(pods: Collection[PodKey] | None) -> str:
    """Return matchers for all of these pods.

    They may also match the namespace of one pod with the name of another, because a range vector has no `or`.
    """
    if pods is None:
        return _OF_A_MODEL
    namespaces, own = {pod.namespace for pod in pods}, {pod.pod for pod in pods}
    return f",namespace=~{_any_of(namespaces)},pod=~{_any_of(own)}"


def _any_of(texts: Iterable[str]) -> str:
    """Return a quoted regular expression that matches exactly these names."""
    # Outside of brackets a dash needs no escape, and names have many.
    return json.dumps("|".join(re.escape(text).replace(r"\-", "-") for text in sorted(texts)))
