"""One unit at a time, on engines and a load client that answer at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from examples.demo.cluster import DemoFailed, PodCount
from examples.demo.measure import Second
from examples.demo.prompts import Kind
from outrider.api.schedule import Schedule
from outrider.api.status import Status
from outrider.telemetry.series import PodKey
from outrider.tuning.policy import Policy
from tests.bench.engine.drive import Bench
from tests.bench.engine.plan import Engine, PlainBlock, PolicyTrace
from tests.bench.engine.records import Push
from tests.unit.bench_engine.factories import CANDIDATES, FakeEngine, FakeSource, code, settings


@dataclass
class FakeCluster:
    log: list[str]
    restarts: list[int] = field(default_factory=list)

    async def engine_pods(self, name: str) -> PodCount:
        return PodCount({name: self.restarts.pop(0) if self.restarts else 0})

    async def status(self, name: str) -> Status:  # noqa: ARG002
        return Status()

    async def delete_model(self, name: str) -> None:
        self.log.append(f"delete {name}")


@dataclass
class FakeModel:
    name: str
    log: list[str]
    failures: int = 0
    url: str = "http://engine/v1"

    async def launch(self, timeout_seconds: float) -> None:  # noqa: ARG002
        self.log.append(f"launch {self.name}")

    async def stop(self) -> None:
        self.log.append(f"stop {self.name}")

    async def pods(self) -> tuple[PodKey, ...]:
        return (PodKey("default", "engine-a"),)

    async def put(self, table: Schedule) -> Push:
        if self.failures:
            self.failures -= 1
            raise DemoFailed("not confirmed")
        self.log.append(f"put {table}")
        return await FakeEngine().put(table)

    async def tune(self, *, forget_seconds: float) -> None:  # noqa: ARG002
        self.log.append("tune")


@dataclass(frozen=True)
class FakeTraffic:
    log: list[str]
    url: str = ""
    max_tokens: int = 128

    async def hold(self, streams: int, kinds: Sequence[Kind], seconds: float) -> AsyncGenerator[Second]:
        if self.max_tokens == 128:
            self.log.append(f"{streams} of {','.join(kinds)} for {seconds:g} s")
        for second in range(4):
            yield Second(second + 1.0, 1.0, 100, 40, 0)


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def bench(log: list[str]) -> Bench:
    return Bench(
        cluster=FakeCluster(log),  # type: ignore[arg-type]
        engines={kind: FakeModel(kind.value, log) for kind in Engine},  # type: ignore[misc]
        traffic=FakeTraffic(log),  # type: ignore[arg-type]
        source=FakeSource(),
        settings=settings(),
        law=Policy(CANDIDATES, 64),
        ready_timeout=1.0,
        tell=lambda _: None,
    )


PLAIN = PlainBlock(visit=0, load=code(8), counted_seconds=8.0)


def a_trace(policy: str) -> PolicyTrace:
    return PolicyTrace(policy, repeat=1, trace=settings("1:60,8:30").trace)


async def test_only_one_engine_runs_at_a_time(bench: Bench, log: list[str]) -> None:
    await bench.run(a_trace("outrider"))
    await bench.run(PLAIN)
    launches = [line for line in log if line.startswith(("launch", "stop"))]
    assert launches == ["launch speculative", "stop speculative", "launch plain"]


async def test_an_engine_that_runs_is_not_launched_again(bench: Bench, log: list[str]) -> None:
    await bench.run(PLAIN)
    await bench.run(PLAIN)
    assert log.count("launch plain") == 1


async def test_outrider_gets_the_table_before_the_load_comes(bench: Bench, log: list[str]) -> None:
    found = await bench.run(a_trace("outrider"))
    assert log[-3:] == ["tune", "1 of code for 60 s", "8 of code for 30 s"]
    assert (found.arm, found.number, [one.load for one in found.stretches]) == (
        "outrider",
        1,
        ["code x1", "code x8"],
    )


async def test_a_rule_puts_its_first_table_in_force_before_the_load_comes(
    bench: Bench, log: list[str]
) -> None:
    found = await bench.run(a_trace("ema"))
    assert log[-3:] == ["put *:3", "1 of code for 60 s", "8 of code for 30 s"]
    assert [push.table for push in found.pushes] == ["*:3"]


async def test_the_ramp_of_the_plain_engine_does_not_count(bench: Bench) -> None:
    found = await bench.run(PLAIN)
    assert [(one.arm, one.since, one.until) for one in found.slices] == [("none", 2.0, 4.0)]


async def test_restarts_inside_a_unit_are_counted(bench: Bench) -> None:
    bench.cluster = FakeCluster([], restarts=[1, 3])  # type: ignore[assignment]
    assert (await bench.run(PLAIN)).restarts == 2


async def test_a_unit_that_fails_is_driven_once_more_on_a_fresh_engine(bench: Bench, log: list[str]) -> None:
    bench.engines[Engine.SPECULATIVE].failures = 1  # type: ignore[attr-defined]
    found = await bench.run_patiently(a_trace("ema"))
    assert found.thrown_away == "not confirmed"
    assert log[:4] == ["launch speculative", "delete speculative", "delete plain", "launch speculative"]


async def test_a_unit_that_fails_again_ends_the_run(bench: Bench) -> None:
    bench.engines[Engine.SPECULATIVE].failures = 2  # type: ignore[attr-defined]
    with pytest.raises(DemoFailed, match="not confirmed"):
        await bench.run_patiently(a_trace("ema"))
