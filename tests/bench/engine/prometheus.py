"""The operator's own metrics source, reached from outside the cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from examples.demo.cluster import DemoFailed, Place
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource

SERVICE = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"
_SERVING = re.compile(r"127\.0\.0\.1:(\d+)")
_START_SECONDS = 20.0


@asynccontextmanager
async def prometheus(place: Place) -> AsyncIterator[PrometheusSource]:
    """Through `kubectl proxy` and the API server, so that it outlives a restart of Prometheus."""
    process = await asyncio.create_subprocess_exec(
        *place.kubectl_command, "proxy", "--port=0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            line = (await process.stdout.readline()).decode()
        found = _SERVING.search(line)
        if found is None:
            raise DemoFailed(f"kubectl proxy did not start: {line.strip()}")
        url = f"http://127.0.0.1:{found[1]}{SERVICE}"
        with closing(PrometheusSource(PrometheusSettings(url))) as source:
            yield source
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
