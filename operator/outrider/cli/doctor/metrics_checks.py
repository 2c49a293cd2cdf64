"""The engine series that Prometheus has and lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from outrider.cli.common.output import counted
from outrider.cli.doctor.evidence import EnginePod, Evidence, Metrics, Operator, Silent
from outrider.cli.doctor.findings import Finding, Unseen, bad, checked, fine, warning
from outrider.cli.doctor.operator_checks import of_each

_PROMETHEUS, _PLUGIN = "Prometheus", "plugin"
_PAGE = "see Prometheus in the installation guide"
_FEWEST_SAMPLES = 3.5
"""Samples in one minute. A scrape every 15 s gives four, one of which may just miss the minute."""


def metrics_findings(evidence: Evidence) -> Iterable[Finding]:
    """Findings about every Prometheus: is it reached, and does it know each serving pod by its labels?

    An operator's Prometheus has to know the pods in the namespaces that the operator watches.
    """

    def check(metrics: Metrics | Silent | None, operator: Operator) -> Iterable[Finding]:
        return _metrics(metrics, operator, evidence.engines)

    return checked(_PROMETHEUS, evidence.metrics, lambda parts: of_each(_PROMETHEUS, parts, check))


def _metrics(
    metrics: Metrics | Silent | None, operator: Operator, engines: tuple[EnginePod, ...] | Unseen
) -> Iterable[Finding]:
    if metrics is None:
        return (fine(_PROMETHEUS, "not needed: the operator scrapes the engines"),)
    if isinstance(metrics, Silent):
        action = f"check prometheus.url of the chart and network policies; {_PAGE}"
        return (bad(_PROMETHEUS, metrics.why, action),)
    return checked(
        "engine pods",
        engines,
        lambda pods: _engines(metrics, tuple(pod for pod in pods if operator.covers(pod.namespace))),
    )


def _engines(metrics: Metrics, engines: tuple[EnginePod, ...]) -> Iterator[Finding]:
    if not engines:
        yield fine(_PROMETHEUS, "reached; no engine serves yet")
        return
    lacking = [pod for pod in engines if not _is_known(metrics, pod)]
    yield from (_lacking(metrics, pod) for pod in lacking)
    if not lacking:
        yield fine(
            _PROMETHEUS,
            f"has samples of {counted(len(engines), 'engine pod')}, all with the labels that Outrider needs",
        )
    known = [pod for pod in engines if pod not in lacking]
    yield from _slow(metrics, known)
    yield from _twice(metrics, known)
    yield from _plugin(metrics, [pod for pod in known if pod.live])


def _is_known(metrics: Metrics, pod: EnginePod) -> bool:
    return any(
        (target.namespace, target.pod, target.model) == (pod.namespace, pod.name, pod.model)
        for target in metrics.targets
    )


def _lacking(metrics: Metrics, pod: EnginePod) -> Finding:
    name = f"{pod.namespace}/{pod.name}"
    if any((target.namespace, target.pod) == (pod.namespace, pod.name) for target in metrics.targets):
        message = f"the series of {name} lack the label outrider_dev_model={pod.model}"
    elif any(not (target.namespace and target.pod) for target in metrics.targets):
        message = f"no series has the name of {name}; some lack the label namespace or pod"
    else:
        message = f"there are no series of {name}"
    return bad(_PROMETHEUS, message, f"scrape engine pods with these labels; {_PAGE}")


def _slow(metrics: Metrics, pods: list[EnginePod]) -> Iterator[Finding]:
    counts = [metrics.samples_per_minute.get((pod.namespace, pod.name), 0.0) for pod in pods]
    if counts and min(counts) < _FEWEST_SAMPLES:
        message = f"{min(counts):.0f} samples of an engine in the last minute"
        yield warning(_PROMETHEUS, message, f"scrape every 5 to 15 s, or wait if it just started; {_PAGE}")


def _twice(metrics: Metrics, pods: list[EnginePod]) -> Iterator[Finding]:
    for pod in pods:
        jobs = {
            each.job for each in metrics.targets if (each.namespace, each.pod) == (pod.namespace, pod.name)
        }
        if len(jobs) > 1:
            message = f"{pod.namespace}/{pod.name} is scraped by {len(jobs)} jobs: {', '.join(sorted(jobs))}"
            yield warning(_PROMETHEUS, message, "leave one of them; the operator takes the newest sample")


def _plugin(metrics: Metrics, pods: list[EnginePod]) -> Iterator[Finding]:
    bare = [pod for pod in pods if (pod.namespace, pod.name) not in metrics.live_tuning]
    held = [pod for pod in pods if metrics.live_tuning.get((pod.namespace, pod.name)) is False]
    for pod in bare:
        action = "use an image with the plugin, or set tuning.actuation: Rollout"
        yield warning(
            _PLUGIN, f"{pod.namespace}/{pod.name} shows none: its schedule cannot change live", action
        )
    for pod in held:
        action = f"run `outrider status {pod.model} -n {pod.namespace}`: ActuationConverged has the reason"
        yield bad(_PLUGIN, f"{pod.namespace}/{pod.name} says that its schedule cannot change", action)
    if pods and not bare and not held:
        yield fine(_PLUGIN, f"{counted(len(pods), 'engine pod')} can change the schedule live")
