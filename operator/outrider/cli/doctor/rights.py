"""The rights that the operator and the commands need. A test holds the first to the chart."""

from __future__ import annotations

from outrider.cli.doctor.evidence import Right
from outrider.cluster.resources import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    MODELS,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)

_CHILD = ("get", "list", "watch", "create", "patch")

OF_THE_OPERATOR = tuple(
    Right(group, resource, verb)
    for group, resource, verbs in (
        (MODELS.group, MODELS.plural, ("list", "watch")),
        (MODELS.group, f"{MODELS.plural}/status", ("patch",)),
        (MODELS.group, f"{MODELS.plural}/finalizers", ("update",)),
        *((kind.group, kind.plural, (*_CHILD, "delete")) for kind in (DEPLOYMENTS, JOBS, BUDGETS)),
        *((kind.group, kind.plural, _CHILD) for kind in (SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS)),
        *((kind.group, kind.plural, ("get", "create", "patch")) for kind in (SECRETS, CLAIMS)),
        (PODS.group, PODS.plural, ("list", "watch")),
        (REPLICA_SETS.group, REPLICA_SETS.plural, ("list",)),
        (EVENTS.group, EVENTS.plural, ("create",)),
    )
    for verb in verbs
)
"""In each namespace that it watches."""

OF_THE_CALLER = (
    Right(MODELS.group, MODELS.plural, "get", "outrider status NAME, explain"),
    Right(MODELS.group, MODELS.plural, "list", "outrider status"),
    Right(CONFIG_MAPS.group, CONFIG_MAPS.plural, "get", "outrider explain"),
    Right(MODELS.group, MODELS.plural, "patch", "outrider bench, sweep, verify"),
    Right(PODS.group, f"{PODS.plural}/portforward", "create", "outrider bench, sweep, verify without --url"),
)
"""In the namespace of the context."""
