"""One unit at a time, on engines and a load client that answer at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from examples.kit.cluster import PodCount, RunFailed
from examples.kit.lateness import Lateness
from examples.kit.loads import Load
from examples.kit.records import Count
from outrider.api.status import Status
from outrider.telemetry.series import PodKey
from outrider.tuning.policy import Policy
from outrider_protocol.schedule import Schedule
from tests.bench.engine.drive import Bench
from tests.bench.engine.plan import Engine, PlainBlock, PolicyTrace
from tests.bench.engine.records import ProbeSample, Push
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
            raise RunFailed("not confirmed")
        self.log.append(f"put {table}")
        return await FakeEngine().put(table)

    async def tune(self, *, forget_seconds: float) -> None:  # noqa: ARG002
        self.log.append("tune")


@dataclass(frozen=True)
class FakeTraffic:
    log: list[str]
    url: str = ""
    max_tokens: int = 128

    async def hold(self, load: Load, seconds: float) -> AsyncGenerator[Count]:
        if self.max_tokens == 128:
            self.log.append(f"{load.streams} of {load.prompts} for {seconds:g} s")
        for second in range(4):
            yield Count(time=second + 1.0, seconds=1.0, tokens=100, requests=40, failed=0)


@dataclass
class FakeStandIns:
    """Lost time of each unit, relative; of its steps 10 s are known."""

    late: list[float]
    log: list[str]
    began: bool = False

    async def pace(self, pods: Sequence[PodKey]) -> dict[PodKey, Lateness]:
        self.began = not self.began
        if self.began:
            return dict.fromkeys(pods, Lateness(0.0, 0.0))
        return dict.fromkeys(pods, Lateness(10.0, 10.0 * self.late.pop(0)))

    async def slow_down(self, pod: PodKey, factor: float) -> None:
        self.log.append(f"slow {pod} {factor}")

    @asynccontextmanager
    async def watching_probes(self, pods: Sequence[PodKey]) -> AsyncIterator[list[ProbeSample]]:
        yield [ProbeSample(time=1.0, pods=len(pods), probing=1)]


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


async def test_outrider_gets_the_table_before_the_load_comes(bench: Bench, log: list[str]) -> None:
    found = await bench.run(a_trace("outrider"))
    assert log[-3:] == ["tune", "1 of code for 60 s", "8 of code for 30 s"]
    assert (found.arm, found.number, [one.load for one in found.stretches]) == (
        "outrider",
        1,
        ["code x1", "code x8"],
    )


async def test_the_ramp_of_the_plain_engine_does_not_count(bench: Bench) -> None:
    found = await bench.run(PLAIN)
    assert [(one.arm, one.since, one.until) for one in found.slices] == [("none", 2.0, 4.0)]


async def test_a_unit_that_fails_is_driven_once_more_on_a_fresh_engine(bench: Bench, log: list[str]) -> None:
    bench.engines[Engine.SPECULATIVE].failures = 1  # type: ignore[attr-defined]
    found = await bench.run_patiently(a_trace("ema"))
    assert found.thrown_away == "not confirmed"
    assert log[:4] == ["launch speculative", "delete speculative", "delete plain", "launch speculative"]


async def test_a_unit_in_which_stand_ins_were_late_is_driven_again_on_the_same_engine(
    bench: Bench, log: list[str]
) -> None:
    bench.stand_ins = FakeStandIns([0.03, 0.002], log)  # type: ignore[assignment]
    found = await bench.run_patiently(PLAIN)
    assert found.late == pytest.approx(0.002)
    assert found.thrown_away == "stand-ins lost 3.0% of their time"
    assert log.count("launch plain") == 1


async def test_of_units_that_stay_late_the_least_late_one_is_kept(bench: Bench, log: list[str]) -> None:
    bench.stand_ins = FakeStandIns([0.05, 0.02, 0.04], log)  # type: ignore[assignment]
    assert (await bench.run_patiently(PLAIN)).late == pytest.approx(0.02)
