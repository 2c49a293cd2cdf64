"""A cluster in memory that takes everything, for many passes in a short time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from outrider.cluster.resources import MODELS, Resource, resource_of

Json = dict[str, Any]


class QuietCluster:
    """Stands in for `ClusterClient`.

    fails: raised by every apply of a child. hangs: a kind of which no write ends.
    meanwhile: metadata that another client sets before the next status
    is written. status: what all field managers wrote last, by model.
    kubernetes: the release of the API server.
    add_ons: kinds that it knows besides.
    version_number: resource version of the newest object.
    """

    def __init__(self, *models: Json) -> None:
        self.objects: dict[str, Json] = {_path(MODELS, model): model for model in models}
        self.status: dict[str, Json] = {}
        self.status_writes = 0
        self._parts: dict[str, dict[str, Json]] = {}  # of a model's status, by field manager
        self.events: list[Json] = []
        self.fails: Exception | None = None
        self.hangs: Resource | None = None
        self.meanwhile: Json = {}
        self.kubernetes: tuple[int, int] | None = (1, 36)
        self.add_ons: set[Resource] = set()
        self.version_number = 1_000

    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self.objects.get(resource.path(namespace, name))

    async def list_all(self, resource: Resource, namespace: str, *, labels: str) -> tuple[list[Json], int]:
        """By labels that are equal to these."""
        wanted = dict(each.split("=") for each in labels.split(",")).items()
        kept = (raw for path, raw in self.objects.items() if path.startswith(resource.path(namespace)))
        return [raw for raw in kept if wanted <= raw["metadata"]["labels"].items()], self.version_number

    async def serves(self, resource: Resource) -> bool:
        return resource in self.add_ons

    async def version(self) -> tuple[int, int] | None:
        return self.kubernetes

    async def apply(self, manifest: Json, *, manager: str) -> Json:
        if self.fails is not None:
            raise self.fails
        await self._hang(resource_of(manifest))
        path = _path(resource_of(manifest), manifest)
        fields = [{"manager": manager, "operation": "Apply"}]
        self.objects[path] = self._newer(
            {**manifest, "metadata": {**manifest["metadata"], "managedFields": fields}}
        )
        return self.objects[path]

    async def apply_status(
        self,
        namespace: str,
        name: str,
        status: Mapping[str, object],
        *,
        manager: str,
    ) -> Json:
        await self._hang(MODELS)
        parts = self._parts.setdefault(name, {})
        parts[manager] = dict(status)
        conditions = [each for part in parts.values() for each in part.get("conditions", ())]
        joined = {key: value for part in parts.values() for key, value in part.items()}
        status = {**joined, "conditions": conditions} if conditions else joined
        self.status[name] = dict(status)
        self.status_writes += 1
        path = MODELS.path(namespace, name)
        metadata, self.meanwhile = {**self.objects[path]["metadata"], **self.meanwhile}, {}
        self.objects[path] = self._newer({**self.objects[path], "metadata": metadata, "status": dict(status)})
        return self.objects[path]

    async def create(self, resource: Resource, manifest: Json) -> Json:  # noqa: ARG002
        self.events.append(manifest)
        return manifest

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> None:  # noqa: ARG002
        self.objects.pop(resource.path(namespace, name), None)

    async def _hang(self, resource: Resource) -> None:
        if resource == self.hangs:
            await asyncio.Event().wait()

    def conditions(self, model: str) -> dict[str, Json]:
        """What the status of a model says, by type."""
        return {entry["type"]: entry for entry in self.status[model]["conditions"]}

    def _newer(self, raw: Json) -> Json:
        self.version_number += 1
        name = raw["metadata"]["name"]
        metadata = {"uid": f"uid-{name}", **raw["metadata"], "resourceVersion": str(self.version_number)}
        return {**raw, "metadata": metadata}


def _path(resource: Resource, raw: Json) -> str:
    return resource.path(raw["metadata"]["namespace"], raw["metadata"]["name"])
