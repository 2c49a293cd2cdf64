"""What every test of the loop needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from outrider.engine.client import EngineClient


@pytest.fixture
async def engines() -> AsyncIterator[EngineClient]:
    client = EngineClient(timeout_seconds=0.5)
    yield client
    await client.aclose()
