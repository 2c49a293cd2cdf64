"""Requests of httpx that are signed as the operator signs its own."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from outrider.engine.signing import SigningKey


class Signed(httpx.Auth):
    """Signs each request for one pod, over the exact bytes of its body."""

    requires_request_body = True

    def __init__(self, key: SigningKey, pod_uid: str) -> None:
        self._key = key
        self._pod_uid = pod_uid

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = self._key.authorization(
            method=request.method, path=request.url.path, pod_uid=self._pod_uid, body=request.content
        )
        yield request
