"""Access reviews: whether an account may do something. The API server answers and does not store them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from outrider.cluster.client import ClusterClient
from outrider.cluster.installation import Claim, Installation
from outrider.cluster.resources import ACCESS_REVIEWS, MODELS, OWN_ACCESS_REVIEWS

_Question = tuple[str, str, str]
_REMEMBERED_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Act:
    """A verb on objects of one kind. Empty fields: all namespaces, no subresource, any name."""

    group: str
    plural: str
    verb: str
    namespace: str
    subresource: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account."""

    namespace: str
    name: str

    @property
    def subject(self) -> dict[str, object]:
        """User and groups of the account, as a review names them."""
        all_of_them = "system:serviceaccounts"
        return {
            "user": f"system:serviceaccount:{self.namespace}:{self.name}",
            "groups": [all_of_them, f"{all_of_them}:{self.namespace}", "system:authenticated"],
        }


async def may(cluster: ClusterClient, act: Act, *, account: ServiceAccount | None = None) -> bool:
    """Return True if the action is allowed. account: None for the caller.

    Raises:
        ClusterError: the API server did not answer, or does not let the caller ask.
    """
    review = OWN_ACCESS_REVIEWS if account is None else ACCESS_REVIEWS
    asked = {"group": act.group, "resource": act.plural, "verb": act.verb, "namespace": act.namespace}
    narrower = {"subresource": act.subresource, "name": act.name}
    attributes = {**asked, **{key: value for key, value in narrower.items() if value}}
    subject = {} if account is None else account.subject
    question = {
        "apiVersion": review.api_version,
        "kind": review.kind,
        "spec": {"resourceAttributes": attributes, **subject},
    }
    answer = await cluster.ask(review, question)
    return (answer.get("status") or {}).get("allowed") is True


class Authority:
    """Checks that the operator behind a Lease may do what the Lease claims; answers last some minutes.

    Anyone with the right to write Leases in some namespace could claim all namespaces, and so stop this
    operator. Only a service account that may write the status of models there can be an operator.
    clock: seconds that never jump.
    """

    def __init__(self, cluster: ClusterClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._answers: dict[_Question, tuple[bool, float]] = {}

    async def believed(self, seen: Installation, *, within: Claim) -> Installation | None:
        """Return the part of an installation's claim that is true ``within`` these namespaces, or None.

        Raises:
            ClusterError: the API server did not answer, or does not let this operator ask.
        """
        claim = seen.claim
        if not claim.watches:
            return seen if await self._may_manage(seen, "") else None
        asked = sorted(name for name in claim.watches if within.covers(name))
        true = frozenset([name for name in asked if await self._may_manage(seen, name)])
        return replace(seen, claim=replace(claim, watches=true)) if true else None

    async def _may_manage(self, seen: Installation, namespace: str) -> bool:
        """Review one account. namespace: empty for all namespaces."""
        question = (seen.namespace, seen.claim.account, namespace)
        oldest = self._clock() - _REMEMBERED_SECONDS
        self._answers = {asked: known for asked, known in self._answers.items() if known[1] > oldest}
        if question not in self._answers:
            # A service account belongs to the Lease's own namespace.
            account = ServiceAccount(seen.namespace, seen.claim.account)
            act = Act(MODELS.group, MODELS.plural, "patch", namespace, subresource="status")
            self._answers[question] = await may(self._cluster, act, account=account), self._clock()
        return self._answers[question][0]
