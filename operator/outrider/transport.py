"""HTTP to engine pods, the same for the control API and for scrapes."""

from __future__ import annotations

import httpx

IDLE_SECONDS = 3.0
"""vLLM's server closes a connection that was idle for 5 s; a request that crosses the close is lost."""


def pod_http(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client without a timeout of its own: its user bounds each whole answer.

    transport: for tests; by default real HTTP.
    """
    # A pod is reached by its own address, never through a proxy of the environment. Silent pods must not
    # use up connections that others wait for.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS)
    return httpx.AsyncClient(timeout=None, transport=transport, trust_env=False, limits=limits)
