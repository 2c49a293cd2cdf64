"""Models of other shards that a model of this one names, read when it is reconciled."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.api.resource import SpeculativeModel
from outrider.cluster.client import ClusterClient
from outrider.cluster.resources import MODELS
from outrider.controller.store import Store
from outrider.controller.stored import Key, StoredModel


async def read_neighbours(cluster: ClusterClient, store: Store, model: SpeculativeModel) -> None:
    """Read the models that this one names, so that `Store.model` has them. Those of this shard are watched.

    Raises:
        ClusterError: the API server does not answer.
    """
    for name in _named(model):
        key = Key(model.metadata.namespace, name)
        if not store.is_of_this_shard(key):
            # The operator may list models, and not get them.
            found, _ = await cluster.list_through(
                MODELS, key.namespace, StoredModel.read, fields=f"metadata.name={name}"
            )
            store.neighbours.pop(key, None)
            forget_neighbours(store)
            if found:
                store.neighbours[key] = found[0]


def forget_neighbours(store: Store) -> None:
    """Drop the models of other shards that no model of this one names any more."""
    if store.neighbours:
        models = (stored.model for stored in store.models if stored.model is not None)
        named = {Key(model.metadata.namespace, name) for model in models for name in _named(model)}
        for key in store.neighbours.keys() - named:
            del store.neighbours[key]


def _named(model: SpeculativeModel) -> Iterator[str]:
    pool = model.spec.inference_pool
    names = (model.spec.engine.kv_transfer_peer, None if pool is None else pool.member_of)
    yield from (name for name in names if name is not None)
