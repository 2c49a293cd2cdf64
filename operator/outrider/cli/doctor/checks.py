"""The findings in the evidence, and what to do about each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise

from outrider import __version__
from outrider.api.crd import custom_resource_definition
from outrider.api.resource import SpeculativeModel
from outrider.cli.common.output import counted
from outrider.cli.doctor.evidence import Evidence, NodeClock, Operator, Right
from outrider.cli.doctor.findings import Finding, Unseen, bad, checked, fine, unseen, warning
from outrider.cli.doctor.launch_checks import ENGINE_STARTS, launch_findings
from outrider.cli.doctor.metrics_checks import metrics_findings
from outrider.cluster.installation import Installation
from outrider.cluster.resources import JsonObject
from outrider.cluster.shards import Shard
from outrider.controller.settings import LeaderElection
from outrider.plan import settled
from outrider.runtimes import runtime_of

_CRD, _OPERATOR, _LEADER, _GPUS, _CLOCKS = "CRD", "operator", "leader", "GPUs", "clocks"
_YOURS, _ITS, _LAUNCHES = "your rights", "its rights", "launches"
_INSTALL = "install the chart"
_DEFECTS = "see Known defects in the documentation"

_LATE_SECONDS = 30
"""Time that a Lease may be overdue, since this machine's clock may differ a little."""
_SKEW_SECONDS = 2.5
"""Above it samples look stale or come from the future. Half a second is rounding."""
_OWN_SKEW_SECONDS = 60
"""A kubelet writes every 10 s; so much later than that, this machine's clock is ahead."""


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """All findings, in the order in which to repair them."""
    return (
        *checked(_CRD, evidence.crd, _crd),
        *checked(_OPERATOR, evidence.operators, _operators),
        *checked(_LEADER, evidence.terms, lambda terms: _leaders(terms, evidence)),
        *checked(_ITS, evidence.missing_of_operator, _operators_rights),
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
        yield bad(_CRD, "there is no SpeculativeModel in this cluster", _INSTALL)
    elif _schemas(found) != _schemas(custom_resource_definition()):
        action = f"upgrade the chart to {__version__}, or use the `outrider` of the chart's version"
        yield warning(_CRD, f"its schema is not that of outrider {__version__}", action)
    else:
        yield fine(_CRD, f"has the schema of outrider {__version__}")


def _schemas(crd: JsonObject) -> dict[str, object]:
    return {version["name"]: version.get("schema") for version in crd["spec"]["versions"]}


def _operators(found: tuple[Operator, ...]) -> Iterator[Finding]:
    if not found:
        yield bad(_OPERATOR, "none is installed", _INSTALL)
    for each in found:
        name = f"{each.namespace}/{each.name}"
        if not each.ready:
            action = f"kubectl describe pods -n {each.namespace} -l app.kubernetes.io/name=outrider"
            yield bad(_OPERATOR, f"{name}: 0 of {counted(each.wanted, 'pod')} ready", action)
        elif each.version != __version__:
            action = "use one version: upgrade the chart, or use the `outrider` of its version"
            yield warning(_OPERATOR, f"{name} is {each.version}, this command {__version__}", action)
        else:
            yield fine(
                _OPERATOR, f"{name} {each.version}, {each.ready} of {counted(each.wanted, 'pod')} ready"
            )
        if isinstance(each.settings, Unseen):
            yield unseen(f"{_OPERATOR}'s settings", each.settings.why)


def _leaders(terms: tuple[Installation, ...], evidence: Evidence) -> Iterator[Finding]:
    for each in evidence.operators if isinstance(evidence.operators, tuple) else ():
        if _elects(each) and each.namespace not in {term.namespace for term in terms}:
            yield bad(_LEADER, f"no operator leads in {each.namespace}", _log_of(each.namespace))
    for term in terms:
        overdue = evidence.now - term.renewed - term.lasts
        shard, has = ("", "") if term.claim.shard.of == 1 else (f"shard {term.claim.shard} ", "has ")
        if not term.holder or overdue > timedelta(seconds=_LATE_SECONDS):
            yield bad(_LEADER, f"no operator leads {shard}in {term.namespace}", _log_of(term.namespace))
        else:
            watched = ", ".join(sorted(term.claim.watches)) or "all namespaces"
            yield fine(_LEADER, f"{shard}{has}{term.holder}, term {term.term}, watches {watched}")
    yield from _without_lease(terms)
    for first, second in pairwise([term for term in terms if term.claim.shard.number == 1]):
        if first.claim.overlaps(second.claim):
            both = f"{first.namespace} and {second.namespace}"
            action = "give each release its own watchNamespaces"
            yield warning(_LEADER, f"the operators in {both} watch the same namespaces", action)


def _without_lease(terms: tuple[Installation, ...]) -> Iterator[Finding]:
    """Shards that never had a leader."""
    seen = {(term.namespace, term.claim.shard) for term in terms}
    for first in (term for term in terms if term.claim.shard.number == 1):
        for shard in Shard.all_of(first.claim.shard.of)[1:]:
            if (first.namespace, shard) not in seen:
                where = f"shard {shard} in {first.namespace}"
                yield bad(_LEADER, f"no operator leads {where}", _log_of(first.namespace))


def _elects(operator: Operator) -> bool:
    settings = operator.settings
    return isinstance(settings, Unseen) or settings.leader_election is LeaderElection.ON


def _log_of(namespace: str) -> str:
    return f"kubectl logs -n {namespace} -l app.kubernetes.io/name=outrider"


def _operators_rights(found: Mapping[str, tuple[Right, ...]]) -> Iterator[Finding]:
    for namespace, missing in found.items():
        where = f"in {namespace}" if namespace else "in all namespaces"
        if missing:
            action = "helm upgrade with the chart of this version; it brings the roles"
            yield bad(_ITS, f"the operator may not {_listed(missing)} {where}", action)
        else:
            yield fine(_ITS, f"the operator may do what it needs {where}")


def _callers_rights(found: tuple[Right, ...]) -> Iterator[Finding]:
    if found:
        commands = ", ".join(dict.fromkeys(right.needed_for for right in found))
        yield warning(
            _YOURS, f"you may not {_listed(found)}", f"ask for that right; it is needed for {commands}"
        )
    else:
        yield fine(_YOURS, "you may use every command here")


def _listed(rights: tuple[Right, ...]) -> str:
    return ", ".join(f"{right.verb} {right.resource}" for right in rights)


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
