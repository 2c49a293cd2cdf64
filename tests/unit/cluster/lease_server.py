"""An API server that keeps one Lease."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class LeaseServer:
    """Keeps one Lease as the API server does, with optimistic locking."""

    lease: dict[str, Any] | None = None
    version: int = 0
    now: datetime = CREATED
    log: list[str] = field(default_factory=list)
    works: asyncio.Event = field(default_factory=lambda: _set(asyncio.Event()))
    """While it is not set, requests hang."""
    fails: int | None = None
    """The HTTP status with which every request fails."""
    stamps: bool = True
    """Objects get their time of creation."""

    async def __call__(self, request: web.Request) -> web.Response:
        self.log.append(request.method)
        await self.works.wait()
        if self.fails is not None:
            return self._refuse(self.fails)
        if request.method == "GET":
            return web.json_response(self.lease) if self.lease else self._refuse(404)
        if request.method == "PUT" and self.lease is None:
            return self._refuse(404)
        body = json.loads(await request.text())
        if self.lease and body["metadata"].get("resourceVersion") != str(self.version):
            return self._refuse(409)
        if self.lease is None and self.stamps:
            body["metadata"]["creationTimestamp"] = self.now.isoformat()
        self.version += 1
        body["metadata"] |= {"resourceVersion": str(self.version), "namespace": "default"}
        self.lease = body
        return web.json_response(body, status=201 if request.method == "POST" else 200)

    def _refuse(self, code: int) -> web.Response:
        return web.json_response({"kind": "Status", "code": code}, status=code)

    def edit(self, **spec: Any) -> None:
        """Fields that another client writes into the spec."""
        assert self.lease is not None
        self.version += 1
        metadata = {**self.lease["metadata"], "resourceVersion": str(self.version)}
        self.lease = {"metadata": metadata, "spec": {**self.lease["spec"], **spec}}

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.01)

    @property
    def annotations(self) -> dict[str, str]:
        assert self.lease is not None
        annotations: dict[str, str] = self.lease["metadata"]["annotations"]
        return annotations

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


def _set(event: asyncio.Event) -> asyncio.Event:
    event.set()
    return event
