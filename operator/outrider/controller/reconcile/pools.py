"""The InferencePool of a model. What is wrong with it is reported, and keeps no engine from serving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import NameTaken, Refused
from outrider.cluster.objects import Child, InferencePool
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import INFERENCE_POOLS, SERVICES
from outrider.controller.children import Children, unwanted
from outrider.controller.reconcile.readiness import DegradedCause
from outrider.controller.store import Store
from outrider.controller.stored import Key
from outrider.plan.children import Manifest
from outrider.plan.inference_pool import POOL_KIND

_SERVES = "The engines serve behind their Service"


class Pools:
    """Applies, deletes and judges InferencePools, which are an add-on and never watched."""

    def __init__(self, cluster: ClusterClient, store: Store, children: Children) -> None:
        self._cluster = cluster
        self._store = store
        self._children = children
        self._without: set[Key] = set()

    def forget(self, key: Key) -> None:
        """Drop what is known of a model that is gone."""
        self._without.discard(key)

    async def follow(
        self, owner: Owner, model: SpeculativeModel, wanted: Sequence[Manifest]
    ) -> DegradedCause | None:
        """Apply the planned pool, or delete an unwanted one. Returns what is wrong, None if nothing is.

        Raises:
            ClusterError: the API server does not answer.
        """
        pool = next((child for child in wanted if child["kind"] == POOL_KIND), None)
        try:
            if pool is None:
                await self._prune(owner)
                return self._without_a_pool_to_join(model)
            self._without.discard(Key(owner.namespace, owner.name))
            if not await self._cluster.serves(INFERENCE_POOLS):
                return _missing(
                    "Outrider creates no InferencePool, because the cluster has no "
                    f"{INFERENCE_POOLS.plural}.{INFERENCE_POOLS.group}/{INFERENCE_POOLS.version}. {_SERVES}. "
                    "Install the CRDs of the Gateway API Inference Extension, or remove spec.inferencePool."
                )
            await self._children.apply(owner, [pool])
            return await self._picker_missing(model) or await self._not_accepted(owner)
        except NameTaken as error:
            return DegradedCause(DegradedReason.NAME_TAKEN, f"{error.message} {_SERVES}.")
        except Refused as error:
            return _missing(
                f"Outrider cannot manage the InferencePool, because the API server refuses: {error.message}. "
                f"{_SERVES}. Give the operator's role get, create, patch and delete on "
                f"{INFERENCE_POOLS.plural}, as Outrider's chart does, or remove spec.inferencePool."
            )

    async def _prune(self, owner: Owner) -> None:
        """Delete the pool that the model no longer asks for. It is looked for once in a process."""
        key = Key(owner.namespace, owner.name)
        if key in self._without:
            return
        live = None
        if await self._children.may_exist(INFERENCE_POOLS):
            live = await self._cluster.get(INFERENCE_POOLS, owner.namespace, owner.name)
        for child in unwanted([] if live is None else [Child.model_validate(live)], (), owner):
            await self._cluster.delete(INFERENCE_POOLS, owner.namespace, owner.name, uid=child.metadata.uid)
        self._without.add(key)

    def _without_a_pool_to_join(self, model: SpeculativeModel) -> DegradedCause | None:
        pool = model.spec.inference_pool
        if pool is None or pool.member_of is None:
            return None
        other = self._store.model(Key(model.metadata.namespace, pool.member_of))
        theirs = None if other is None or other.model is None else other.model.spec.inference_pool
        if theirs is not None and theirs.endpoint_picker is not None:
            return None
        return _missing(
            f"No gateway finds these engines, because spec.inferencePool.memberOf names {pool.member_of}, "
            "and the namespace has no SpeculativeModel of that name with inferencePool.endpointPicker. "
            f"{_SERVES}. Set endpointPicker there, or correct memberOf."
        )

    async def _picker_missing(self, model: SpeculativeModel) -> DegradedCause | None:
        pool = model.spec.inference_pool
        picker = None if pool is None else pool.endpoint_picker
        if picker is None:
            return None
        if await self._cluster.get(SERVICES, model.metadata.namespace, picker.service) is not None:
            return None
        message = (
            f"No endpoint picker chooses the pods of requests that a gateway receives, because the namespace "
            f"has no Service {picker.service}. {_SERVES}. Install the endpoint picker, or correct "
            "spec.inferencePool.endpointPicker.service."
        )
        return DegradedCause(DegradedReason.ENDPOINT_PICKER_MISSING, message)

    async def _not_accepted(self, owner: Owner) -> DegradedCause | None:
        raw = await self._cluster.get(INFERENCE_POOLS, owner.namespace, owner.name)
        refusal = next(_refusals(InferencePool.model_validate(raw)), None) if raw is not None else None
        if refusal is None:
            return None
        message = f"A gateway cannot use the InferencePool {owner.name}: {refusal}. {_SERVES}."
        return DegradedCause(DegradedReason.INFERENCE_POOL_NOT_ACCEPTED, message)


def _refusals(pool: InferencePool) -> Iterator[str]:
    """What gateways say against a pool, one phrase for each."""
    for parent in pool.status.parents:
        for condition in parent.conditions:
            if condition.type in ("Accepted", "ResolvedRefs") and condition.status == "False":
                yield (
                    f"{parent.parent_ref.kind} {parent.parent_ref.name} reports {condition.type}=False, "
                    f"{condition.reason}: {condition.message.rstrip('. ')}"
                )


def _missing(message: str) -> DegradedCause:
    return DegradedCause(DegradedReason.INFERENCE_POOL_MISSING, message)
