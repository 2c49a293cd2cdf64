"""What Prometheus is asked: one selector for all pods, and the parts that it can be cut into. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable

from outrider.telemetry import names
from outrider.telemetry.series import PodKey

_ENDINGS = "bcdfghjklmnpqrstvwxz2456789"
"""The characters in which Kubernetes ends generated pod names."""


def partition(parts: int) -> list[str]:
    """Label matchers that share all pods out among so many queries, each pod to one."""
    if parts == 1:
        return [""]
    groups = [_ENDINGS[part::parts] for part in range(parts - 1)]
    rest = f',pod!~".*[{"".join(groups)}]"'
    return [*(f',pod=~".*[{group}]"' for group in groups), rest]


def around(pods: Iterable[PodKey]) -> list[str]:
    """Label matchers that share out all pods but these, each of the others to one.

    Two namespaces may use the same name, so each namespace that is concerned is asked for by itself.
    """
    by_namespace: defaultdict[str, list[str]] = defaultdict(list)
    for pod in sorted(pods):
        by_namespace[pod.namespace].append(pod.pod)
    if not by_namespace:
        return [""]
    rest = f",namespace!~{_any_of(by_namespace)}"
    return [
        rest,
        *(f",namespace={json.dumps(ns)},pod!~{_any_of(some)}" for ns, some in by_namespace.items()),
    ]


def _any_of(texts: Iterable[str]) -> str:
    """A quoted expression that matches these and nothing else."""
    return json.dumps("|".join(map(re.escape, texts)))


def query(lookback_seconds: float, pods: str = "") -> str:
    """PromQL for the raw samples of every engine pod.

    pods: of `partition` and `around`.
    """
    return f"{selector(pods)}[{round(lookback_seconds * 1000)}ms]"


def selector(pods: str = "") -> str:
    """PromQL for everything that is read. `source` keeps one row of the prompt tokens."""
    stock = "|".join(sorted(name.removeprefix("vllm:") for name in names.STOCK))
    plugin = "|".join(sorted(name.removeprefix("outrider:") for name in names.PLUGIN))
    return (
        f'{{__name__=~"vllm:({stock})|outrider:({plugin})",'
        f'outrider_dev_model!="",source=~"|{names.LOCAL_COMPUTE}"{pods}}}'
    )
