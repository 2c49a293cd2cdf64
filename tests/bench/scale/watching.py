"""The objects of a collection as they change, for the parts that tests play."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

LISTED = "LISTED"
_AWAY_SECONDS = 0.2
"""Until the API server is asked again."""


async def list_and_watch(
    http: aiohttp.ClientSession, url: str, query: Mapping[str, str]
) -> AsyncIterator[tuple[str, Any]]:
    """Without end `LISTED` with all objects, and then each event: its type and its object.

    After an error everything is listed again.
    """
    while True:
        try:
            async with http.get(url, params=query, raise_for_status=True) as answer:
                listed = await answer.json()
            yield LISTED, listed["items"]
            watch = {**query, "watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
            async with http.get(url, params=watch, raise_for_status=True) as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    yield event["type"], event["object"]
        except aiohttp.ClientError:
            await asyncio.sleep(_AWAY_SECONDS)
