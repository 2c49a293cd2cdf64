"""The findings in the evidence, and what to do about each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import pairwise

from outrider import __version__
from outrider.api.crd import custom_resource_definition
from outrider.api.resource import SpeculativeModel
from outrider.cli.common.output import counted
from outrider.cli.doctor.evidence import Evidence, Operator, Right, Unseen
from outrider.cli.doctor.findings import Finding, bad, fine, unseen, warning
from outrider.cli.doctor.launch_checks import launch_findings
from outrider.cli.doctor.metrics_checks import metrics_findings
from outrider.cluster.installation import Installation
from outrider.cluster.resources import JsonObject
from outrider.controller.settings import LeaderElection
from outrider.plan import settled
from outrider.runtimes import runtime_of

_CRD, _OPERATOR, _LEADER, _GPUS, _CLOCKS = "CRD", "operator", "leader", "GPUs", "clocks"
_YOURS, _ITS = "your rights", "its rights"

_LATE_SECONDS = 30
"""Time that a Lease may be overdue, since this machine's clock may differ a little."""
_SKEW_SECONDS = 2.5
"""Above it samples look stale or come from the future. Half a second is rounding."""
_OWN_SKEW_SECONDS = 60
"""A kubelet writes every 10 s; so much later than that, this machine's clock is ahead."""


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """All findings, in the order in which to repair them."""
    return (
        *_crd(evidence.crd),
        *_operators(evidence.operators),
        *_leaders(evidence),
        *_operators_rights(evidence),
        *_callers_rights(evidence),
        *metrics_findings(evidence),
        *_gpus(evidence),
        *launch_findings(evidence.place),
        *_clocks(evidence),
        *known_limits(evidence.models),
    )


def _crd(found: JsonObject | Unseen | None) -> Iterator[Finding]:
    if isinstance(found, Unseen):
        yield unseen(_CRD, found.why)
    elif found is None:
        yield bad(
            _CRD,
            "there is no SpeculativeModel in this cluster",
            "install the chart",
        )
    elif _schemas(found) != _schemas(custom_resource_definition()):
        action = f"upgrade the chart to {__version__}, or use the `outrider` of the chart's version"
        yield warning(_CRD, f"its schema is not that of outrider {__version__}", action)
    else:
        yield fine(_CRD, f"has the schema of outrider {__version__}")


def _schemas(crd: JsonObject) -> dict[str, object]:
    return {version["name"]: version.get("schema") for version in crd["spec"]["versions"]}


def _operators(found: tuple[Operator, ...] | Unseen) -> Iterator[Finding]:
    if isinstance(found, Unseen):
        yield unseen(_OPERATOR, found.why)
        return
    if not found:
        yield bad(_OPERATOR, "none is installed", "install the chart")
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


def _leaders(evidence: Evidence) -> Iterator[Finding]:
    terms, operators = evidence.terms, evidence.operators
    if isinstance(terms, Unseen):
        yield unseen(_LEADER, terms.why)
        return
    if isinstance(operators, tuple):
        for each in operators:
            if _elects(each) and each.namespace not in {term.namespace for term in terms}:
                yield bad(_LEADER, f"no operator leads in {each.namespace}", _log_of(each.namespace))
    for term in terms:
        overdue = evidence.now - term.renewed - term.lasts
        if not term.holder or overdue > timedelta(seconds=_LATE_SECONDS):
            yield bad(_LEADER, f"no operator leads in {term.namespace}", _log_of(term.namespace))
        else:
            yield fine(_LEADER, f"{term.holder}, term {term.term}, {_watched(term)}")
    for first, second in pairwise(terms):
        if first.claim.overlaps(second.claim):
            both = f"{first.namespace} and {second.namespace}"
            action = "give each release its own watchNamespaces"
            yield warning(_LEADER, f"the operators in {both} watch the same namespaces", action)


def _elects(operator: Operator) -> bool:
    settings = operator.settings
    return isinstance(settings, Unseen) or settings.leader_election is LeaderElection.ON


def _log_of(namespace: str) -> str:
    return f"kubectl logs -n {namespace} -l app.kubernetes.io/name=outrider"


def _watched(term: Installation) -> str:
    return f"watches {', '.join(sorted(term.claim.watches)) or 'all namespaces'}"


def _operators_rights(evidence: Evidence) -> Iterator[Finding]:
    found = evidence.missing_of_operator
    if isinstance(found, Unseen):
        yield unseen(_ITS, found.why)
        return
    for namespace, missing in found.items():
        where = f"in {namespace}" if namespace else "in all namespaces"
        if missing:
            action = "helm upgrade with the chart of this version; it brings the roles"
            yield bad(_ITS, f"the operator may not {_listed(missing)} {where}", action)
        else:
            yield fine(_ITS, f"the operator may do what it needs {where}")


def _callers_rights(evidence: Evidence) -> Iterator[Finding]:
    found = evidence.missing_of_caller
    if isinstance(found, Unseen):
        yield unseen(_YOURS, found.why)
    elif found:
        commands = ", ".join(dict.fromkeys(right.needed_for for right in found))
        yield warning(
            _YOURS, f"you may not {_listed(found)}", f"ask for that right; it is needed for {commands}"
        )
    else:
        yield fine(_YOURS, "you may use every command here")


def _listed(rights: tuple[Right, ...]) -> str:
    return ", ".join(f"{right.verb} {right.resource}" for right in rights)


def _gpus(evidence: Evidence) -> Iterator[Finding]:
    offered, wanted = evidence.offered, evidence.wanted
    for part in (offered, wanted):
        if isinstance(part, Unseen):
            yield unseen(_GPUS, part.why)
            return
    assert not isinstance(offered, Unseen)
    assert not isinstance(wanted, Unseen)
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


def _clocks(evidence: Evidence) -> Iterator[Finding]:
    clocks = evidence.clocks
    if isinstance(clocks, Unseen):
        yield unseen(_CLOCKS, clocks.why)
        return
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
    behind = (max(each.server for each in clocks) - evidence.now).total_seconds()
    if behind > _SKEW_SECONDS or -behind > _OWN_SKEW_SECONDS:
        side = "behind" if behind > 0 else "ahead of"
        message = f"this machine is {abs(behind):.0f} s {side} the cluster"
        yield warning(_CLOCKS, message, "set its clock by NTP; ages in this output are wrong")
    elif not wrong:
        yield fine(_CLOCKS, f"{counted(len(clocks), 'node')} and this machine agree")


_SUBJECT = "launches"
_ACTION = "see Known defects in the documentation"


def known_limits(models: Iterable[SpeculativeModel] | Unseen) -> Iterator[Finding]:
    """Findings about each model, by its spec and its downloaded weights."""
    if isinstance(models, Unseen):
        yield unseen(_SUBJECT, models.why)
        return
    looked_at = tuple(models)
    found = tuple(finding for model in looked_at for finding in limits_of(model))
    yield from found
    if looked_at and not found:
        yield fine(_SUBJECT, "no known defect of vLLM affects them")


def limits_of(model: SpeculativeModel) -> Iterator[Finding]:
    """Findings about one model."""
    name, weights = f"{model.metadata.namespace}/{model.metadata.name}", model.status.weights
    runtime = runtime_of(model.spec)
    refused = runtime.unsupported_reason(settled(model).spec, weights)
    if refused is not None:
        yield bad(_SUBJECT, f"{name} is refused: {refused}", _ACTION)
    for issue in runtime.advice(model.spec, weights):
        yield warning(_SUBJECT, f"{name}: {issue}", _ACTION)
