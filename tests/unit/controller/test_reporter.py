"""The reports of the tuning loop reach the API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.api.reasons import EventReason
from outrider.controller.store import Store
from outrider.controller.tune.api_server import ClusterApiServer
from tests.unit.cluster.factories import Answer, ScriptedServer, a_cluster, answer, refusal
from tests.unit.tuning_loop.factories import a_model


async def tell(
    found: Answer, *, reason: EventReason = EventReason.RETUNED, note: str = "K is 1."
) -> ScriptedServer:
    async with a_cluster(found) as (cluster, server):
        await ClusterApiServer(cluster, Store()).event(a_model(), reason, note)
    return server


def written(server: ScriptedServer) -> dict[str, Any]:
    (body,) = server.bodies
    found: dict[str, Any] = json.loads(body)
    return found


@pytest.mark.parametrize(
    ("reason", "severity"), [(EventReason.RETUNED, "Normal"), (EventReason.METRICS_LOST, "Warning")]
)
async def test_an_event_names_the_model_the_reason_and_how_severe_it_is(
    reason: EventReason, severity: str
) -> None:
    server = await tell(answer({}), reason=reason)
    assert server.asked == ["POST /apis/events.k8s.io/v1/namespaces/default/events"]
    event = written(server)
    told = (event["reason"], event["note"], event["type"], event["action"])
    assert told == (reason, "K is 1.", severity, "Tune")
    regarding = event["regarding"]
    assert (regarding["kind"], regarding["name"], regarding["uid"]) == (
        "SpeculativeModel",
        "m",
        "uid-of-m",
    )


async def test_a_note_is_cut_to_what_the_api_server_takes() -> None:
    assert len(written(await tell(answer({}), note="x" * 5_000))["note"].encode()) == 1024


async def test_an_event_that_is_refused_is_lost_and_nothing_else() -> None:
    server = await tell(refusal(403))
    assert len(server.asked) == 1
