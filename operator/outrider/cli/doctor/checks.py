"""The findings in the evidence, and what to do about each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from outrider import __version__
from outrider.api.crd import custom_resource_definition
from outrider.api.resource import SpeculativeModel
from outrider.cli.common.output import counted
from outrider.cli.doctor.evidence import Evidence, NodeClock, Right
from outrider.cli.doctor.findings import Finding, bad, checked, fine, warning
from outrider.cli.doctor.launch_checks import ENGINE_STARTS, launch_findings
from outrider.cli.doctor.metrics_checks import metrics_findings
from outrider.cli.doctor.operator_checks import INSTALL, listed, operator_findings
from outrider.cluster.resources import JsonObject
from outrider.plan import settled
from outrider.runtimes import runtime_of

_CRD, _YOURS, _GPUS, _CLOCKS, _LAUNCHES = "CRD", "your rights", "GPUs", "clocks", "launches"
_DEFECTS = "see Known defects in the documentation"

_SKEW_SECONDS = 2.5
"""Above it samples look stale or come from the future. Half a second is rounding."""
_OWN_SKEW_SECONDS = 60
"""A kubelet writes every 10 s; so much later than that, this machine's clock is ahead."""


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """All findings, in the order in which to repair them."""
    return (
        *checked(_CRD, evidence.crd, _crd),
        *operator_findings(evidence),
        *checked(_YOURS, evidence.missing_of_caller, _callers_rights),
        *metrics_findings(evidence),
        *checked(
            _GPUS,
            evidence.offered,
            lambda offered: checked(_GPUS, evidence.wanted, lambda wanted: _gpus(offered, wanted)),
        ),
        *checked(ENGINE_STARTS, evidence.place, launch_findings),
        *checked(_CLOCKS, evidence.clocks, lambda clocks: _clocks(clocks, evidence.now)),
        *checked(_LAUNCHES, evidence.models, _known_limits),
    )


def _crd(found: JsonObject | None) -> Iterator[Finding]:
    if found is None:
        yield bad(_CRD, "there is no SpeculativeModel in this cluster", INSTALL)
    elif _schemas(found) != _schemas(custom_resource_definition()):
        action = f"upgrade the chart to {__version__}, or use the `outrider` of the chart's version"
        yield warning(_CRD, f"its schema is not that of outrider {__version__}", action)
    else:
        yield fine(_CRD, f"has the schema of outrider {__version__}")


def _schemas(crd: JsonObject) -> dict[str, object]:
    return {version["name"]: version.get("schema") for version in crd["spec"]["versions"]}


def _callers_rights(found: tuple[Right, ...]) -> Iterator[Finding]:
    if found:
        commands = ", ".join(dict.fromkeys(right.needed_for for right in found))
        yield warning(
            _YOURS, f"you may not {listed(found)}", f"ask for that right; it is needed for {commands}"
        )
    else:
        yield fine(_YOURS, "you may use every command here")


def _gpus(offered: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[Finding]:
    for resource, count in wanted.items():
        has = offered.get(resource, 0)
        if not has:
            action = "install the device plugin of that vendor, such as NVIDIA's GPU operator, or add nodes"
            yield bad(_GPUS, f"models want {count} {resource}, and no node offers any", action)
        elif has < count:
            yield warning(_GPUS, f"models want {count} {resource}, nodes offer {has}", "add nodes")
        else:
            yield fine(_GPUS, f"models want {count} {resource}, nodes offer {has}")
    if not wanted:
        offers = ", ".join(f"{count} {resource}" for resource, count in offered.items()) or "none"
        yield fine(_GPUS, f"no model asks for GPUs; nodes offer {offers}")


def _clocks(clocks: tuple[NodeClock, ...], now: datetime) -> Iterator[Finding]:
    wrong = 0
    for each in clocks:
        # The API server writes whole seconds, so half a second is the middle of what it may mean.
        skew = (each.own - each.server).total_seconds() - 0.5
        if abs(skew) > _SKEW_SECONDS:
            wrong += 1
            side = "ahead of" if skew > 0 else "behind"
            message = f"node {each.node} is {abs(skew):.0f} s {side} the API server"
            yield warning(_CLOCKS, message, "set its clock by NTP; samples of its pods have wrong times")
    if not clocks:
        return
    behind = (max(each.server for each in clocks) - now).total_seconds()
    if behind > _SKEW_SECONDS or -behind > _OWN_SKEW_SECONDS:
        side = "behind" if behind > 0 else "ahead of"
        message = f"this machine is {abs(behind):.0f} s {side} the cluster"
        yield warning(_CLOCKS, message, "set its clock by NTP; ages in this output are wrong")
    elif not wrong:
        yield fine(_CLOCKS, f"{counted(len(clocks), 'node')} and this machine agree")


def _known_limits(models: tuple[SpeculativeModel, ...]) -> Iterator[Finding]:
    """Defects of releases of vLLM, and launches in which K cannot change, by spec and downloaded weights."""
    found = tuple(finding for model in models for finding in _limits_of(model))
    yield from found
    if models and not found:
        yield fine(_LAUNCHES, "no known defect of vLLM affects them")


def _limits_of(model: SpeculativeModel) -> Iterator[Finding]:
    name, weights = f"{model.metadata.namespace}/{model.metadata.name}", model.status.weights
    runtime = runtime_of(model.spec)
    refused = runtime.unsupported_reason(settled(model).spec, weights)
    if refused is not None:
        yield bad(_LAUNCHES, f"{name} is refused: {refused}", _DEFECTS)
    for issue in runtime.advice(model.spec, weights):
        yield warning(_LAUNCHES, f"{name}: {issue}", _DEFECTS)
