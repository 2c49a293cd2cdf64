"""What every test of the loop needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from outrider.engine.client import EngineClient


@pytest.fixture
async def engines() -> AsyncIterator[EngineClient]:
    # Long enough for a busy machine; only tests of silent engines wait for it.
    client = EngineClient(timeout_seconds=3)
    yield client
    await client.aclose()
