"""May somebody do this? Reviews of access, which the API server answers and stores nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.cluster.client import ClusterClient
from outrider.cluster.resources import ACCESS_REVIEWS, OWN_ACCESS_REVIEWS


@dataclass(frozen=True, slots=True)
class Act:
    """A verb on objects of one kind. Empty: all namespaces, no subresource, whatever the name."""

    group: str
    plural: str
    verb: str
    namespace: str
    subresource: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """That of a program in the cluster."""

    namespace: str
    name: str

    @property
    def subject(self) -> dict[str, object]:
        """As a review names it, with the groups that every such account is in."""
        all_of_them = "system:serviceaccounts"
        return {
            "user": f"system:serviceaccount:{self.namespace}:{self.name}",
            "groups": [all_of_them, f"{all_of_them}:{self.namespace}", "system:authenticated"],
        }


async def may(cluster: ClusterClient, act: Act, *, account: ServiceAccount | None = None) -> bool:
    """Whether it is allowed. account: None for whoever asks.

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
