"""The findings about operators: their Deployments, Leases and rights. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations

from outrider import __version__
from outrider.cli.common.output import counted
from outrider.cli.doctor.evidence import Evidence, OfOperator, Operator, Right
from outrider.cli.doctor.findings import Finding, PartT, Unseen, bad, checked, fine, unseen, warning
from outrider.cluster.installation import Installation
from outrider.cluster.lease import LEASE_NAME
from outrider.cluster.shards import Shard

INSTALL = "install the chart"

_OPERATOR, _LEADER, _ITS = "operator", "leader", "its rights"
_PODS = "-l app.kubernetes.io/component=operator"
_LATE_SECONDS = 30
"""Time that a Lease may be overdue, since this machine's clock may differ a little."""


def operator_findings(evidence: Evidence) -> tuple[Finding, ...]:
    """Findings about Deployments, leaders and rights of all operators."""
    return (
        *checked(_OPERATOR, evidence.operators, _deployments),
        *checked(_LEADER, evidence.terms, partial(_leaders, evidence=evidence)),
        *checked(_ITS, evidence.missing_of_operators, _of_accounts),
    )


def of_each(
    subject: str,
    parts: Sequence[OfOperator[PartT]],
    check: Callable[[PartT, Operator], Iterable[Finding]],
) -> Iterator[Finding]:
    """The findings of a check of every operator, which name the operator where there are several."""
    for part in parts:
        seen, operator = part.seen, part.operator
        found = (unseen(subject, seen.why),) if isinstance(seen, Unseen) else check(seen, operator)
        if len(parts) == 1:
            yield from found
        else:
            yield from (replace(each, message=f"{operator.title}: {each.message}") for each in found)


def _deployments(found: tuple[Operator, ...]) -> Iterator[Finding]:
    if not found:
        yield bad(_OPERATOR, "none is installed", INSTALL)
    for each in found:
        if not each.ready:
            action = f"kubectl describe pods -n {each.namespace} {_PODS}"
            yield bad(_OPERATOR, f"{each.title}: 0 of {counted(each.wanted, 'pod')} ready", action)
        elif each.version != __version__:
            action = "use one version: upgrade the chart, or use the `outrider` of its version"
            yield warning(_OPERATOR, f"{each.title} is {each.version}, this command {__version__}", action)
        else:
            pods = f"{each.ready} of {counted(each.wanted, 'pod')} ready"
            yield fine(_OPERATOR, f"{each.title} {each.version}, {pods}")
        if isinstance(each.settings, Unseen):
            yield unseen(f"{_OPERATOR}'s settings", each.settings.why)
    yield from _sharing(found)


def _sharing(operators: tuple[Operator, ...]) -> Iterator[Finding]:
    """Releases that elect one leader among all of them, since their Leases have one name and namespace."""
    sharing: defaultdict[str, list[Operator]] = defaultdict(list)
    for each in operators:
        if each.elects and each.wanted:
            sharing[each.lease_namespace].append(each)
    for namespace, several in sharing.items():
        if len(several) > 1:
            yield bad(
                _OPERATOR,
                f"{' and '.join(each.title for each in several)} share the Lease {LEASE_NAME} in {namespace},"
                " so only the one that leads serves its models",
                "move one release to a namespace of its own",
            )


def _leaders(terms: tuple[Installation, ...], evidence: Evidence) -> Iterator[Finding]:
    operators = evidence.operators if isinstance(evidence.operators, tuple) else ()
    homes = {each.lease_namespace for each in operators if each.elects}
    held = {term.namespace for term in terms}
    for namespace in sorted(homes - held):
        yield bad(_LEADER, f"no operator leads in {namespace}", _log_of(namespace))
    if isinstance(evidence.operators, Unseen):
        left_over = set[str]()
    else:
        left_over = held - homes - {term.namespace for term in terms if _leads(term, evidence.now)}
    for namespace in sorted(left_over):
        yield fine(_LEADER, f"the Lease in {namespace} is left over: no operator there elects a leader")
    used = [term for term in terms if term.namespace not in left_over]
    for term in used:
        shard, has = ("", "") if term.claim.shard.of == 1 else (f"shard {term.claim.shard} ", "has ")
        if _leads(term, evidence.now):
            watched = ", ".join(sorted(term.claim.watches)) or "all namespaces"
            yield fine(_LEADER, f"{shard}{has}{term.holder}, term {term.term}, watches {watched}")
        else:
            yield bad(_LEADER, f"no operator leads {shard}in {term.namespace}", _log_of(term.namespace))
    yield from _without_lease(used)
    yield from _overlapping(used)


def _leads(term: Installation, now: datetime) -> bool:
    overdue = now - term.renewed - term.lasts
    return bool(term.holder) and overdue <= timedelta(seconds=_LATE_SECONDS)


def _without_lease(terms: Iterable[Installation]) -> Iterator[Finding]:
    """Shards that never had a leader."""
    seen = {(term.namespace, term.claim.shard) for term in terms}
    for first in (term for term in terms if term.claim.shard.number == 1):
        for shard in Shard.all_of(first.claim.shard.of)[1:]:
            if (first.namespace, shard) not in seen:
                where = f"shard {shard} in {first.namespace}"
                yield bad(_LEADER, f"no operator leads {where}", _log_of(first.namespace))


def _overlapping(terms: Iterable[Installation]) -> Iterator[Finding]:
    for first, second in combinations([term for term in terms if term.claim.shard.number == 1], 2):
        if first.claim.overlaps(second.claim):
            both = f"{first.namespace} and {second.namespace}"
            action = "give each release its own watchNamespaces"
            yield warning(_LEADER, f"the operators in {both} watch the same namespaces", action)


def _log_of(namespace: str) -> str:
    return f"kubectl logs -n {namespace} {_PODS}"


def _of_accounts(parts: tuple[OfOperator[Mapping[str, tuple[Right, ...]]], ...]) -> Iterator[Finding]:
    return of_each(_ITS, parts, lambda missing, _: _rights(missing))


def _rights(found: Mapping[str, tuple[Right, ...]]) -> Iterator[Finding]:
    for namespace, missing in found.items():
        where = f"in {namespace}" if namespace else "in all namespaces"
        if missing:
            action = "helm upgrade with the chart of this version; it brings the roles"
            yield bad(_ITS, f"the operator may not {listed(missing)} {where}", action)
        else:
            yield fine(_ITS, f"the operator may do what it needs {where}")


def listed(rights: tuple[Right, ...]) -> str:
    """The verbs and resources of rights, for people."""
    return ", ".join(f"{right.verb} {right.resource}" for right in rights)
