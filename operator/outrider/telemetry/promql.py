"""What Prometheus is asked: one selector, for all engine pods or for some that it names. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from outrider.telemetry import names
from outrider.telemetry.series import PodKey

_NO_NAMESPACE, _NO_POD = ',namespace=""', ',pod=""'


def query(lookback_seconds: float, pods: Collection[PodKey] | None = None) -> str:
    """PromQL for the raw samples of these engine pods; None: of every one."""
    return f"{selector(_named(pods))}[{round(lookback_seconds * 1000)}ms]"


def counting(pods: Collection[PodKey] | None = None) -> str:
    """PromQL for the number of series of each of these engine pods; None: of every one."""
    return f"count by (namespace, pod) ({selector(_named(pods))})"


def unlabelled() -> str:
    """PromQL for the number of series that do not say which pod they belong to; nothing where all do."""
    return f"count({selector(_NO_NAMESPACE)} or {selector(_NO_POD)})"


def selector(more: str = "") -> str:
    """PromQL for everything that is read. `source` keeps one row of the prompt tokens.

    more: label matchers, each behind a comma.
    """
    stock = "|".join(sorted(name.removeprefix("vllm:") for name in names.STOCK))
    plugin = "|".join(sorted(name.removeprefix("outrider:") for name in names.PLUGIN))
    return (
        f'{{__name__=~"vllm:({stock})|outrider:({plugin})",'
        f'outrider_dev_model!="",source=~"|{names.LOCAL_COMPUTE}"{more}}}'
    )


def _named(pods: Collection[PodKey] | None) -> str:
    """Matchers that take all of these, and of strangers those that share both names with different ones.

    A range vector has no `or`.
    """
    if pods is None:
        return ""
    namespaces, own = {pod.namespace for pod in pods}, {pod.pod for pod in pods}
    return f",namespace=~{_any_of(namespaces)},pod=~{_any_of(own)}"


def _any_of(texts: Iterable[str]) -> str:
    """A quoted expression that matches these and nothing else."""
    # Outside of brackets a dash is itself, and names have many.
    return json.dumps("|".join(re.escape(text).replace(r"\-", "-") for text in sorted(texts)))
