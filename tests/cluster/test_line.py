"""The whole line on one model: apply, serve, retune both ways, survive, delete. Tests run in this order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from examples.kit.prompts import Kind
from tests.cluster.annotations import override, pause, take_back
from tests.cluster.engines import name_of, pods_of, ready_pods
from tests.cluster.helm import CHART, RELEASE, WAIT, helm
from tests.cluster.kubectl import Object, condition, get, has_condition, kubectl, patch, wait_for
from tests.cluster.models import (
    deploying,
    in_force,
    k_in_force,
    model,
    read_example,
    speculation,
    wait_until_nothing_is_left,
)
from tests.cluster.operator_pod import operator_pods
from tests.cluster.outrider_cli import outrider
from tests.cluster.sending import Sender, Sent, sending_to

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.engine("real", "line"),
    pytest.mark.alone("measures"),
]

NAME = "line"
CRD = "speculativemodels.outrider.dev"
OPPOSITE_OF_GOOD = [
    {"maxBatchSize": 3, "numSpeculativeTokens": 0},
    {"numSpeculativeTokens": 5},
]
OPPOSITE_IN_ONE_LINE = "3:0,*:5"
"""One stream of code gains much from drafts, 32 of prose lose much: the tuner has to move both ways.

With 32 streams of code all K above 0 are within noise of one another."""

TUNED_SECONDS = 480.0
"""Reading 32 prompts for the first time takes most of a minute where the processor is slow."""

RENEWED = 2
"""Epoch of the first tick of a new leader. Its first renewal, which no status shows, has epoch 1."""

STEADY_LOOKS, MOST_LOOKS = 25, 120
"""At the table, one a second, under the load that it was made for."""


@dataclass(frozen=True)
class Line:
    """The model under test and a client that sends through its Service."""

    sender: Sender
    pod: str
    """The only one of the engine."""

    async def send(self, streams: int, seconds: float) -> Sent:
        """Hold a load and count."""
        return await self.sender.send(streams, seconds)

    async def send_until(self, reached: Callable[[], bool], streams: int, kind: Kind = Kind.CODE) -> Sent:
        """Hold a load until the tuner did what it should, or had time enough."""
        return await self.sender.send_until(reached, streams, TUNED_SECONDS, kind)

    async def restarts(self) -> int:
        """Container restarts of the engine pods so far."""
        return sum((await self.sender.cluster.engine_pods(NAME)).restarts.values())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def line() -> AsyncIterator[Line]:
    """One model for the whole module: an engine takes about a minute to start."""
    manifest = read_example()
    manifest["spec"]["speculation"] |= {"tuning": {"mode": "Off"}, "schedule": OPPOSITE_OF_GOOD}
    with deploying() as deploy:
        deploy(manifest, NAME)
        async with sending_to(manifest) as sender:
            wait_for("Ready", look, lambda seen: has_condition(seen, "Ready", "True"), seconds=300)
            await sender.reached()
            (pod,) = ready_pods(NAME)
            yield Line(sender, pod)


def look() -> Object | None:
    """The model as it stands."""
    return model(NAME)


def edit(**fields: object) -> None:
    """The user edits `spec.speculation`."""
    patch("specmodel", NAME, {"spec": {"speculation": fields}})


def table(seen: Object | None) -> str | None:
    """The table in force, in one line."""
    return speculation(seen).get("scheduleSummary")


def is_held(seen: Object | None) -> bool:
    """Nothing but a restart can move the table now."""
    paused = has_condition(seen, "TuningActive", "False", "Paused")
    return paused and has_condition(seen, "ActuationConverged", "True")


def k(streams: int) -> int:
    """K in force for so many requests."""
    return k_in_force(look(), streams)


def epoch(seen: Object | None) -> int:
    """How many tables the leading process has pushed."""
    return int(speculation(seen).get("epoch", 0))


async def test_serves_through_the_service(line: Line) -> None:
    sent = await line.send(streams=2, seconds=5)
    assert sent.tokens > 0
    assert (sent.failed, sent.errors) == (0, ())


async def test_prints_what_a_user_looks_for(line: Line) -> None:  # noqa: ARG001
    header, row = kubectl("get", "specmodel", NAME, "-n", "default").strip().splitlines()
    columns = ("NAME", "READY", "REASON", "SCHEDULE", "ACCEPTANCE", "SPEEDUP", "REPLICAS", "AGE")
    assert tuple(header.split()) == columns
    assert row.split()[:2] == [NAME, "True"]
    assert OPPOSITE_IN_ONE_LINE in row.split()


@pytest.mark.parametrize("k", [0, 5, 2])
async def test_an_edited_table_is_in_force_without_a_restart(line: Line, k: int) -> None:
    edit(schedule=[{"numSpeculativeTokens": k}])
    wait_for(f"K={k}", look, lambda seen: table(seen) == f"*:{k}", seconds=30)
    converged = ("ActuationConverged", "True", "Converged")
    wait_for("confirmed", look, lambda seen: has_condition(seen, *converged), seconds=30)
    sent = await line.send(streams=2, seconds=3)
    assert sent.failed == 0
    assert await line.restarts() == 0


async def test_tuning_raises_k_for_one_stream(line: Line) -> None:
    edit(schedule=OPPOSITE_OF_GOOD)
    wait_for("the user's table", look, lambda seen: table(seen) == OPPOSITE_IN_ONE_LINE, seconds=30)
    edit(tuning={"mode": "Auto"})
    sent = await line.send_until(lambda: k(1) > 0, streams=1)
    assert sent.failed == 0
    assert k(1) > 0


async def test_tuning_lowers_k_for_many_streams(line: Line) -> None:
    sent = await line.send_until(lambda: k(32) < 5, streams=32, kind=Kind.PROSE)
    assert sent.failed == 0
    assert k(32) < 5


async def test_a_lower_k_stays_under_the_load_that_it_was_chosen_for(line: Line) -> None:
    steady = 0
    async with line.sender.holding(streams=32, kind=Kind.PROSE) as came_to:
        for _ in range(MOST_LOOKS):
            # Until this load was measured, its row is a guess, and the first trial may be of K=5.
            steady = steady + 1 if await asyncio.to_thread(k, 32) < 5 else 0
            if steady == STEADY_LOOKS:
                break
            await asyncio.sleep(1.0)
    assert came_to[0].failed == 0
    assert steady == STEADY_LOOKS


async def test_decisions_say_why_in_numbers(line: Line) -> None:  # noqa: ARG001
    seen = look()
    assert seen is not None
    decisions = seen["status"]["decisions"]
    assert decisions
    for decision in decisions:
        assert decision["reason"] == "OtherBatchSizes" or "tok/s" in decision["message"]
    assert condition(seen, "MetricsAvailable") is not None


async def test_explain_shows_the_schedule_before_and_after_a_decision(line: Line) -> None:  # noqa: ARG001
    seen = look()
    assert seen is not None
    latest = seen["status"]["decisions"][0]
    just_before = datetime.fromisoformat(latest["time"]) - timedelta(seconds=1)
    words = ("explain", NAME, "-n", "default", "--json", "--at")
    assert outrider(*words, just_before.isoformat()).told["schedule"] == latest["from"]
    assert outrider(*words, latest["time"]).told["decision"] == latest


async def test_a_retune_leaves_the_reconcilers_part_of_status_alone(line: Line) -> None:  # noqa: ARG001
    serving = ("Ready", "True", "Serving")
    seen = wait_for("serving", look, lambda seen: has_condition(seen, *serving), seconds=30)
    assert (seen or {})["status"]["readyReplicas"] == 1


async def test_a_restarted_operator_continues_with_the_table_in_force(line: Line) -> None:
    pause(NAME)
    before = wait_for("paused, and the last table of the load confirmed", look, is_held, seconds=60)
    assert epoch(before) > RENEWED
    kubectl("rollout", "restart", "deployment/outrider", "-n", "outrider-system")
    kubectl("rollout", "status", "deployment/outrider", "-n", "outrider-system", "--timeout=90s")
    after = wait_for(
        "the new process counts its own epochs",
        look,
        lambda seen: epoch(seen) == RENEWED and has_condition(seen, "ActuationConverged", "True"),
        seconds=60,
    )
    assert table(after) == table(before)
    take_back(NAME)
    sent = await line.send(streams=2, seconds=4)
    assert sent.failed == 0


@pytest.fixture
def values(tmp_path: Path) -> Iterator[Path]:
    """Those of the release, which afterwards is as it was before, whatever happened to it."""
    file = tmp_path / "values.yaml"
    file.write_text(helm("get", "values", RELEASE, "-o", "yaml"))
    yield file
    helm("upgrade", "--install", RELEASE, str(CHART), "--values", str(file), *WAIT)


async def test_the_engine_serves_without_the_release_and_the_next_one_rules_it(
    line: Line, values: Path
) -> None:
    helm("uninstall", RELEASE, "--wait")
    wait_for("the operator is gone", operator_pods, lambda left: left is None, seconds=60)
    assert get("crd", CRD) is not None
    assert look() is not None
    sent = await line.send(streams=2, seconds=2)
    assert (sent.failed, sent.errors) == (0, ())
    helm("install", RELEASE, str(CHART), "--values", str(values), *WAIT)
    override(NAME, "*:1", seconds=600)
    wait_for("the next release pushes K=1", look, in_force("*:1", replicas=1), seconds=30)
    take_back(NAME)


async def test_the_engine_never_restarted(line: Line) -> None:
    (pod,) = pods_of(NAME)
    assert await line.restarts() == 0
    assert name_of(pod) == line.pod


async def test_deletion_leaves_nothing(line: Line) -> None:  # noqa: ARG001
    kubectl("delete", "specmodel", NAME, "-n", "default", "--wait=false")
    wait_until_nothing_is_left(NAME)
