"""Apply the planned objects of one model, and delete the others."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import Conflict, Refused
from outrider.cluster.objects import Child
from outrider.cluster.ownership import MANAGER, Owner, Ownership, name_taken, ownership
from outrider.cluster.resources import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    SECRETS,
    JsonObject,
    Resource,
    resource_of,
)
from outrider.controller.store import Store
from outrider.controller.stored import Key, StoredChild
from outrider.engine.signing import SigningKey
from outrider.plan.names import PRIVATE_KEY, control_secret, group_set

APPLIED_ANNOTATION = "outrider.dev/applied"
"""Digest of the last applied manifest; reveals fields that the manifest no longer contains."""

_KIND_SECONDS = 10.0
"""Until an optional kind is asked for again."""


@dataclass(frozen=True, slots=True)
class ControlSecret:
    """The key that signs requests to a model's engines.

    live: the model's Secret, as read; None if the next `Children.apply` writes a new key. missing: whether
    there was no Secret of that name.
    """

    key: SigningKey
    live: StoredChild | None = None
    missing: bool = False


class Children:
    """Applies the objects that differ, in the plan's order. Each step is repeatable after a crash.

    clock: seconds that never jump.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        store: Store,
        *,
        manager: str = MANAGER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._manager = manager
        self._clock = clock
        self._kinds: dict[Resource, tuple[bool, float]] = {}

    async def control_secret(self, owner: Owner) -> ControlSecret:
        """The key in the model's Secret, or a new one for the next `apply`."""
        raw = await self._read_control_secret(owner)
        if raw is None:
            return ControlSecret(SigningKey.generate(), missing=True)
        return _usable(raw, owner) or ControlSecret(SigningKey.generate())

    async def signing_key(self, owner: Owner) -> SigningKey | None:
        """The key in the model's Secret; None without a usable one."""
        raw = await self._read_control_secret(owner)
        found = None if raw is None else _usable(raw, owner)
        return None if found is None else found.key

    async def _read_control_secret(self, owner: Owner) -> JsonObject | None:
        return await self._cluster.get(SECRETS, owner.namespace, control_secret(owner.name))

    async def apply(
        self, owner: Owner, wanted: Sequence[JsonObject], *, secret: ControlSecret | None = None
    ) -> None:
        """Apply every object that differs from the live one.

        Nothing is written if one of the names belongs to another owner. secret: is not read again.

        Raises:
            NameTaken, ClusterError: see `outrider.cluster.errors`.
        """
        live = [await self._live(owner, manifest, secret) for manifest in wanted]
        for stored in live:
            _check_owner(stored, owner)
        for manifest, stored in zip(wanted, live, strict=True):
            await self._apply_one(stamped(manifest), stored)

    async def prune(
        self,
        owner: Owner,
        wanted: Sequence[JsonObject],
        *,
        kinds: Sequence[Resource] = (DEPLOYMENTS, JOBS, BUDGETS),
    ) -> None:
        """Delete the model's own objects of these kinds that the plan no longer names.

        The other objects are the same for every spec, and the operator has no right to delete them.
        """
        for kind in kinds:
            stored = self._store.children[kind].of_model(Key(owner.namespace, owner.name))
            for child in unwanted([entry.child for entry in stored], wanted, owner):
                metadata = child.metadata
                await self._cluster.delete(kind, owner.namespace, metadata.name, uid=metadata.uid)

    async def prune_groups(self, owner: Owner, wanted: Sequence[JsonObject]) -> None:
        """Delete the model's LeaderWorkerSet before its Deployment is created, so that no crash leaves both.

        It is read only then, and only in a cluster with that kind.
        """
        deployment = Key(owner.namespace, owner.name)
        named = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in wanted}
        known = self._store.children[DEPLOYMENTS].get(deployment)
        if known is not None or (DEPLOYMENTS.kind, owner.name) not in named:
            return
        if not await self.may_exist(LEADER_WORKER_SETS):
            return
        name = group_set(owner.name)
        try:
            live = await self._cluster.get(LEADER_WORKER_SETS, owner.namespace, name)
        except Refused:  # Without the right to read there was none to create one.
            return
        for child in unwanted([] if live is None else [Child.model_validate(live)], wanted, owner):
            await self._cluster.delete(LEADER_WORKER_SETS, owner.namespace, name, uid=child.metadata.uid)

    async def may_exist(self, kind: Resource) -> bool:
        """Whether the cluster had this optional kind some seconds ago, so that many models ask once.

        Only for what is deleted: an object of this operator cannot be older than its kind.
        """
        known, at = self._kinds.get(kind, (False, -math.inf))
        if (now := self._clock()) - at > _KIND_SECONDS:
            known = await self._cluster.serves(kind)
            self._kinds[kind] = known, now
        return known

    async def forget_done_job(self, model: Key, name: str) -> None:
        """Delete a completed Job whose pod is gone with its result, so that the next reconcile repeats it."""
        stored = self._store.children[JOBS].get(Key(model.namespace, name))
        if stored is not None and stored.succeeded:
            await self._cluster.delete(JOBS, model.namespace, name, uid=stored.metadata.uid)

    async def _live(
        self, owner: Owner, manifest: JsonObject, secret: ControlSecret | None
    ) -> StoredChild | None:
        resource, name = resource_of(manifest), str(manifest["metadata"]["name"])
        if (
            secret is not None
            and (secret.live is not None or secret.missing)
            and (resource, name) == (SECRETS, control_secret(owner.name))
        ):
            return secret.live
        cache = self._store.children.get(resource)
        known = cache.get(Key(owner.namespace, name)) if cache is not None else None
        if known is not None:
            return known
        # Not found by label: it may be missing, or belong to another owner.
        raw = await self._cluster.get(resource, owner.namespace, name)
        return StoredChild.read(raw) if raw is not None else None

    async def _apply_one(self, manifest: JsonObject, stored: StoredChild | None) -> None:
        if stored is not None:
            if await self._stands(manifest, stored):
                return
            # With the UID, the write fails if another object has taken the name since.
            metadata = {**manifest["metadata"], "uid": stored.metadata.uid}
            manifest = {**manifest, "metadata": metadata}
        answer = await self._cluster.apply(manifest, manager=self._manager)
        self._kinds.pop(resource_of(manifest), None)  # It exists.
        cache = self._store.children.get(resource_of(manifest))
        if cache is not None:
            cache.put(answer)

    async def _stands(self, manifest: JsonObject, stored: StoredChild) -> bool:
        """Whether the live object agrees with the manifest. It is compared once; later its digest is."""
        applied = manifest["metadata"]["annotations"][APPLIED_ANNOTATION]
        if stored.metadata.annotations.get(APPLIED_ANNOTATION) != applied:
            return False
        if stored.agrees_with == applied:
            return True
        content = stored.content.unpacked()
        if content is None:
            name = stored.metadata.name
            content = await self._cluster.get(resource_of(manifest), stored.metadata.namespace, name)
        if not satisfies(content, manifest):
            return False
        cache = self._store.children.get(resource_of(manifest))
        if cache is not None:
            cache.improve(stored.agreeing(applied))
        return True


def _check_owner(stored: StoredChild | None, owner: Owner) -> None:
    if stored is None:
        return
    match ownership(stored.child, owner):
        case Ownership.FOREIGN:
            raise name_taken(stored.child, owner)
        case Ownership.PREDECESSORS:
            name = f"{stored.child.kind} {owner.namespace}/{stored.metadata.name}"
            raise Conflict(f"{name} still belongs to a deleted model of this name", retry_after=1.0)
        case Ownership.OURS:
            return


def _usable(raw: JsonObject, owner: Owner) -> ControlSecret | None:
    """A Secret with a key that belongs to this owner; None for any other."""
    key = _key_in(raw)
    if key is None:
        return None
    live = StoredChild.read(raw)
    return ControlSecret(key, live) if ownership(live.child, owner) is Ownership.OURS else None


def _key_in(secret: JsonObject) -> SigningKey | None:
    """The key in a Secret; None if it is missing or cannot be parsed, so that it is replaced."""
    try:
        return SigningKey.read(base64.b64decode((secret.get("data") or {})[PRIVATE_KEY], validate=True))
    except (KeyError, ValueError):
        return None


def stamped(manifest: JsonObject) -> JsonObject:
    """Return the manifest with its own digest as an annotation."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def satisfies(live: object, wanted: object) -> bool:
    """Return True if every field of the manifest has the same value in the object.

    Other fields of the object do not matter. Lists must agree in length and order. A value that the API
    server writes in another form (``1000m`` for ``1``) differs, which costs one apply without effect.
    """
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            satisfies(live.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(live, list | tuple)
            and len(live) == len(wanted)
            and all(satisfies(have, want) for have, want in zip(live, wanted, strict=True))
        )
    return live == wanted or (live is None and not wanted)


def unwanted(children: Iterable[Child], wanted: Iterable[JsonObject], owner: Owner) -> list[Child]:
    """Return the children of ``owner`` that ``wanted`` does not name.

    A child must have a controlling owner reference with the owner's UID. A label alone does not
    justify a deletion.
    """
    keep = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in wanted}
    return [
        child
        for child in children
        if (child.kind, child.metadata.name) not in keep
        and any(ref.controller and ref.uid == owner.uid for ref in child.metadata.owner_references)
    ]
