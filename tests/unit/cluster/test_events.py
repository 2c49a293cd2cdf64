from __future__ import annotations

import json

import pytest

from outrider.api.reasons import EventReason
from outrider.cluster.events import EventWriter
from tests.unit.cluster.factories import OWNER, a_cluster, answer


async def written(note: str) -> str:
    async with a_cluster(answer({})) as (cluster, server):
        await EventWriter(cluster).emit(OWNER, EventReason.DEGRADED, note)
    return str(json.loads(server.bodies[0])["note"])


async def test_a_note_is_written_as_it_is() -> None:
    assert await written("2 of 3 pods — serve") == "2 of 3 pods — serve"


async def test_an_event_whose_reply_was_lost_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    exists = answer({"message": "already exists"}, status=409)
    async with a_cluster(exists, exists, exists, exists) as (cluster, _):
        await EventWriter(cluster).emit(OWNER, EventReason.DEGRADED, "a note")
    assert caplog.text == ""


async def test_a_note_that_is_too_long_in_bytes_is_shortened_and_marked() -> None:
    note = await written("é" * 1_000)

    assert len(note.encode()) <= 1024
    assert note == "é" * (len(note) - 1) + "…"
