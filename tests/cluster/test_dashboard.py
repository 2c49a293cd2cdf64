"""A simulated H100 that the operator tunes, on the dashboard and in the alerts of the real Prometheus.

Under load every panel has data, and no alert fires. In this order.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from charts.dashboard import ROWS
from charts.grafana import Query
from tests.cluster.alerts import BROKEN, alerts, ask, held, knowing_broken_text, wait_until_held
from tests.cluster.kubectl import Object, has_condition, list_objects, wait_for
from tests.cluster.models import PUNCTUAL, deploying, k_in_force, model, read_twin, speculation
from tests.cluster.sending import Sender, sending_to

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine("twin", "tuned")]

NAME, LOST = "seen", "lost"
NO_DRAFTS = [{"numSpeculativeTokens": 0}]
KEPT_BY_EVERY_K = {"interTokenLatency": {"limit": "1s"}, "timeToFirstToken": {"limit": "1m"}}
SECONDS, TUNED_SECONDS = 180.0, 480.0
WITHOUT_DATA = {
    "Trimmed drafts",
    "Acceptance by LoRA adapter",
    "Gain of a new drafter",
    "Requests with a K limit",
    "Requests by K limit",
}
"""A simulated engine has neither adaptive verification nor adapters, and here no request has a K limit.
`tests/contract` counts all three."""
QUERIES = [
    (panel.title, query)
    for row in ROWS
    for panel in row.panels
    for query in panel.queries
    if panel.title not in WITHOUT_DATA
]


def filled(query: Query) -> str:
    """As Grafana sends it for this model."""
    text = query.expression.replace("$__rate_interval", "30s").replace("$model_namespace", "default")
    return re.sub(r"\$model\b", NAME, text)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sender() -> AsyncIterator[Sender]:
    """A model whose table begins without drafts, so that the tuner has something to do, and its client."""
    manifest = knowing_broken_text(read_twin(time_factor=2, cpu=PUNCTUAL))
    manifest["spec"]["speculation"]["schedule"] = NO_DRAFTS
    manifest["spec"]["speculation"].setdefault("tuning", {})["slo"] = KEPT_BY_EVERY_K
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            ready = "Ready"
            wait_for(ready, lambda: model(NAME), lambda seen: has_condition(seen, ready, "True"), seconds=180)
            await sender.reached()
            yield sender


@pytest.fixture(scope="module")
def lost() -> Object:
    """What the alert said of a model whose image is missing, and which is deleted since."""
    manifest = read_twin()
    manifest["spec"]["engine"]["image"] = "outrider/there-is-none:dev"
    with deploying() as deploy:
        deploy(manifest, LOST)
        seen = wait_for("the alert sees it", degraded, lambda seen: seen is not None, seconds=120)
    assert seen is not None
    return seen


def degraded() -> Object | None:
    """What the alert says of it."""
    found = [series for series in ask(alerts()["OutriderModelDegraded"]) if series["metric"]["model"] == LOST]
    return {"status": found} if found else None


@pytest.mark.engine("none", "its image is missing")
async def test_a_model_that_needs_a_person_is_seen_once(lost: Object) -> None:
    assert len(lost["status"]) == 1


@pytest.mark.usefixtures("sender")
async def test_step_times_are_known_before_the_load() -> None:
    """Engines measure them before they serve; the operator keeps them and says so."""

    def has_a_map(seen: Object | None) -> bool:
        return "stepTimeProfile" in speculation(seen)

    seen = wait_for("a map of step times", lambda: model(NAME), has_a_map, seconds=60)
    assert "cells, measured by" in str(seen)


async def test_the_tuner_finds_that_an_h100_gains_from_drafts(sender: Sender) -> None:
    sent = await sender.send_until(lambda: k_in_force(model(NAME), 8) > 0, 8, TUNED_SECONDS)
    assert (sent.failed, sent.errors) == (0, ())
    assert k_in_force(model(NAME), 8) > 0


async def test_the_pod_reports_how_late_it_was(sender: Sender) -> None:
    before = await lateness(sender)
    await sender.send(streams=8, seconds=10)
    after = await lateness(sender)
    scheduled, lost = (after[name] - before[name] for name in ("scheduled", "lost"))
    print(f"{scheduled:.1f} s by the table, {lost / scheduled:.3%} more in truth")
    assert scheduled > 5
    assert lost >= 0


async def lateness(sender: Sender) -> dict[str, float]:
    """The engine's counters of its lateness."""
    (pod,) = list_objects("pods", selector=f"outrider.dev/model={NAME}")
    port = "8000"
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}:{port}/proxy/outrider/twin/v1"
    return await sender.cluster.get_raw(path)


async def test_every_query_of_the_dashboard_has_data_under_load(sender: Sender) -> None:
    """Each at some time: a rate has none while what it counts is rarer than the window that it looks back."""
    without = [f"{title}: {filled(query)}" for title, query in QUERIES]

    def all_had_data() -> bool:
        without[:] = [line for line in without if not ask(line.partition(": ")[2])]
        return not without

    sent = await sender.send_until(all_had_data, 8, SECONDS)

    assert without == []
    assert (sent.failed, sent.errors) == (0, ())


async def test_no_alert_stays_about_a_model_that_is_well(sender: Sender) -> None:
    """An alert fires once its expression has held for minutes; a moment is a push on its way."""
    seen: set[str] = set(alerts())

    def all_were_quiet() -> bool:
        seen.intersection_update(about_the_model())
        return not seen

    await sender.send_until(all_were_quiet, 8, SECONDS)

    assert seen == set(), (model(NAME) or {}).get("status")


def about_the_model() -> set[str]:
    """Names of the alerts whose expression holds for the model, or for all."""
    return {
        name
        for name, expression in alerts().items()
        for series in ask(expression)
        if NAME in (series["metric"].get("model"), series["metric"].get("outrider_dev_model"))
        or name == "OutriderLeaderAbsent"
    }


async def test_drafts_that_all_fail_are_seen_although_the_tuner_turns_them_off(sender: Sender) -> None:
    """Its history is that of the load before."""
    alert = "OutriderAcceptanceCollapsed"
    assert held(alert, model=NAME) == []
    await sender.send_until(lambda: k_in_force(model(NAME), 8) > 0, 8, SECONDS)

    async with sender.holding(8, text=BROKEN):
        wanted = {"model_namespace": "default", "model": NAME}
        await asyncio.to_thread(wait_until_held, alert, wanted, seconds=SECONDS, model=NAME)
        await asyncio.to_thread(
            wait_for, "turned off", lambda: model(NAME), lambda seen: not k_in_force(seen, 8), seconds=60
        )
        collapsed = ("DrafterHealthy", "False", "AcceptanceCollapsed")
        await asyncio.to_thread(
            wait_for, "seen", lambda: model(NAME), lambda seen: has_condition(seen, *collapsed), seconds=60
        )


@pytest.mark.engine("none", "its image is missing")
async def test_the_alert_about_it_goes_with_the_model(lost: Object) -> None:  # noqa: ARG001  it was seen
    """The expression looks back two minutes, so that a change of leaders does not end an alert. Most of them
    are over by now."""
    wait_for("it is over", degraded, lambda seen: seen is None, seconds=180)
