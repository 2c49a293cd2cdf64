"""The API server by plain HTTP on loopback, and through it Services and pods."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from examples.kit.cluster import Place, RunFailed

_SERVING = re.compile(r"127\.0\.0\.1:(\d+)")
_START_SECONDS = 20.0


@asynccontextmanager
async def api_proxy(place: Place) -> AsyncIterator[str]:
    """``kubectl proxy`` while the block runs; yields its URL.

    Raises:
        RunFailed: it did not start.
    """
    # kubectl's errors are not read during the run; a pipe would fill up and block it.
    process = await asyncio.create_subprocess_exec(
        *place.kubectl_command, "proxy", "--port=0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            line = (await process.stdout.readline()).decode()
        found = _SERVING.search(line)
        if found is None:
            raise RunFailed(f"kubectl proxy did not start: {line.strip()}")
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
