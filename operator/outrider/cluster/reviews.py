"""Access reviews: whether an account may do something. The API server answers and does not store them."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.cluster.client import ClusterClient
from outrider.cluster.resources import ACCESS_REVIEWS, OWN_ACCESS_REVIEWS


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
