"""Pushing one table to many engines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from outrider.controller.settings import Settings
from outrider.controller.tune.actuation import push_to_all
from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.errors import StaleTerm
from outrider.engine.signing import SigningKey
from outrider.engine.state import EngineState
from outrider_protocol.control_api import Fence, Push
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving


@pytest.fixture
async def engines() -> AsyncIterator[EngineClient]:
    client = EngineClient(timeout_seconds=3.0)
    yield client
    await client.aclose()


PUSH = Push(Fence(1, 17), Schedule.constant(1), 60)


async def test_reports_every_pod_that_reads_back_the_table(engines: EngineClient) -> None:
    async with serving(FakeEngine("a"), FakeEngine("b")) as pods:
        report = await push_to_all(engines, pods, PUSH)
    assert str(report) == "2/2 at epoch 17"


async def test_a_refusing_pod_is_named_and_does_not_hold_up_the_others(engines: EngineClient) -> None:
    async with serving(FakeEngine("a"), FakeEngine("b", term=9), FakeEngine("c", hangs=True)) as pods:
        report = await push_to_all(engines, pods, PUSH)
    assert [confirmed.pod for confirmed in report.confirmed] == ["a"]
    assert isinstance(report.failed[0].error, StaleTerm)
    assert str(report).startswith("1/3 at epoch 17; b: StaleEpoch")
    assert "c: timeout" in str(report)


async def test_a_pod_that_does_not_take_the_signature_is_named_with_what_to_do(engines: EngineClient) -> None:
    async with serving(FakeEngine("a"), FakeEngine("b")) as [a, b]:
        other = replace(b, address=replace(b.address, key=SigningKey.generate()))
        report = await push_to_all(engines, [a, other], PUSH)
    assert str(report).startswith(
        "1/2 at epoch 17; b: Unauthorized: not signed for this pod; a pod reads a new"
    )
    assert not report.unreachable


async def test_more_silent_pods_than_a_pool_has_connections_hold_up_no_other() -> None:
    async with serving(FakeEngine("silent", hangs=True), FakeEngine("last")) as [silent, last]:
        pods = [*(replace(silent, name=f"silent-{number}") for number in range(120)), last]
        # The operator's own timeout: one process that opens 121 connections at once needs some of it.
        engines = EngineClient(timeout_seconds=Settings().engine_timeout_seconds)
        try:
            report = await push_to_all(engines, pods, PUSH)
        finally:
            await engines.aclose()
    assert [confirmed.pod for confirmed in report.confirmed] == ["last"]


async def test_an_engine_that_accepts_and_changes_nothing_is_caught(engines: EngineClient) -> None:
    async with serving(FakeEngine("a", lies=True)) as pods:
        report = await push_to_all(engines, pods, PUSH)
    assert "accepted the schedule *:1 but uses *:3" in str(report)


async def test_a_pod_says_which_k_failed_its_self_test(engines: EngineClient) -> None:
    refusing, willing = FakeEngine("a", failed=frozenset({1})), FakeEngine("b", failed=frozenset({5}))
    async with serving(refusing, willing) as pods:
        report = await push_to_all(engines, pods, PUSH)
    assert [outcome.failed_k for outcome in report.outcomes] == [frozenset({1}), frozenset({5})]
    assert str(report).endswith("; a: K=1 failed the self-test; b: K=5 failed the self-test")


class Stumbling(EngineClient):
    """Has a defect that shows with one engine."""

    def __init__(self, over: EngineAddress) -> None:
        super().__init__(timeout_seconds=5)
        self.over = over

    async def push(self, engine: EngineAddress, push: Push) -> EngineState:
        if engine == self.over:
            raise TypeError("unhashable type: 'list'")
        return await super().push(engine, push)


async def test_a_defect_over_one_pod_is_reported_for_that_pod_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(FakeEngine("a"), FakeEngine("b")) as pods:
        stumbling = Stumbling(pods[0].address)
        report = await push_to_all(stumbling, pods, PUSH)
        await stumbling.aclose()
    assert [confirmed.pod for confirmed in report.confirmed] == ["b"]
    assert str(report).endswith("; a: internal error, see the operator's log: TypeError")
    assert "push to a failed" in caplog.text
    assert "TypeError: unhashable type: 'list'" in caplog.text


async def test_pushing_again_renews_and_stays_confirmed(engines: EngineClient) -> None:
    engine = FakeEngine("a")
    async with serving(engine) as pods:
        await push_to_all(engines, pods, PUSH)
        report = await push_to_all(engines, pods, PUSH)
    assert len(report.confirmed) == 1
    assert engine.puts == 2


async def test_a_restarted_pod_shows_a_new_boot_id(engines: EngineClient) -> None:
    engine = FakeEngine("a")
    async with serving(engine) as pods:
        before = await push_to_all(engines, pods, PUSH)
        engine.restart()
        after = await push_to_all(engines, pods, PUSH)
    assert before.confirmed[0].boot_id != after.confirmed[0].boot_id


async def test_without_any_answer_the_model_is_unreachable(engines: EngineClient) -> None:
    async with serving(FakeEngine("a", hangs=True)) as pods:
        report = await push_to_all(engines, pods, PUSH)
    assert report.unreachable


async def test_with_an_answer_of_one_pod_the_model_is_reachable(engines: EngineClient) -> None:
    async with serving(FakeEngine("a"), FakeEngine("b")) as [a, b]:
        gone = replace(a, address=replace(a.address, url="http://127.0.0.1:1"))
        report = await push_to_all(engines, [gone, b], PUSH)
    assert [failed.pod for failed in report.failed] == ["a"]
    assert not report.unreachable


async def test_without_pods_nothing_is_unreachable(engines: EngineClient) -> None:
    assert not (await push_to_all(engines, [], PUSH)).unreachable


async def test_the_first_engine_that_cannot_be_tuned_says_why_for_all(engines: EngineClient) -> None:
    async with serving(FakeEngine("a", live_reason="no table"), FakeEngine("b")) as pods:
        report = await push_to_all(engines, pods, PUSH)
        willing = await push_to_all(engines, pods[1:], PUSH)
    assert "no table" in str(report.impossible)
    assert willing.impossible is None
