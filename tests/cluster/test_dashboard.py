"""Dashboard and alerts against the real Prometheus: under load every panel has data, and no alert fires."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from charts.dashboard import ROWS
from charts.grafana import Query
from tests.cluster.alerts import BROKEN, alerts, ask, held, knowing_broken_text, wait_until_held
from tests.cluster.kubectl import Object, has_condition, wait_for
from tests.cluster.models import deploying, k_in_force, model, read_twin
from tests.cluster.operator_pod import without_operator
from tests.cluster.sending import Sender, sending_to

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine("twin", "tuned")]

NAME, LOST = "seen", "lost"
NO_DRAFTS = [{"numSpeculativeTokens": 0}]
KEPT_BY_EVERY_K = {"interTokenLatency": {"limit": "1s"}, "timeToFirstToken": {"limit": "1m"}}
SECONDS = 180.0
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
    manifest = knowing_broken_text(read_twin())
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

    async with sender.holding(8, text=BROKEN):
        wanted = {"model_namespace": "default", "model": NAME}
        await asyncio.to_thread(wait_until_held, alert, wanted, seconds=90, model=NAME)
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


@pytest.mark.alone("the operator goes")
async def test_a_missing_leader_is_seen() -> None:
    expression = alerts()["OutriderLeaderAbsent"]

    def absent() -> Object | None:
        found = ask(expression)
        return {"status": found} if found else None

    with without_operator():
        wait_for("the alert sees it", absent, lambda seen: seen is not None, seconds=60)
    wait_for("it is over", absent, lambda seen: seen is None, seconds=60)
