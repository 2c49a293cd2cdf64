"""What work of one key costs the others."""

from __future__ import annotations

import asyncio
import time

import pytest

from outrider.controller.cpu_budget import CpuBudget, Metered, Overspent


class Cpu:
    """A thread's CPU time, and a clock, that tests move."""

    def __init__(self) -> None:
        self.spent = 100.0
        self.now = 1000.0
        self.told: list[tuple[str, Overspent]] = []

    def thread_time(self) -> float:
        return self.spent

    async def work(self, *steps: float) -> str:
        """Takes so much in each step, and waits between them, when others take some."""
        for step in steps:
            self.spent += step
            await asyncio.sleep(0)
            self.spent += 50
        return "done"

    def budget(self, *, doubling: bool = False) -> CpuBudget[str]:
        """0.25 s, and 5 % of a CPU."""
        return CpuBudget(
            0.25,
            share=0.05,
            overspent=lambda key, told: self.told.append((key, told)),
            doubling=doubling,
            clock=lambda: self.now,
        )


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> Cpu:
    found = Cpu()
    monkeypatch.setattr(time, "thread_time", found.thread_time)
    return found


async def _busy(cpu: Cpu, seconds: float) -> None:
    cpu.spent += seconds


async def _waits(cpu: Cpu, until: asyncio.Event) -> None:
    cpu.spent += 1
    await until.wait()
    cpu.spent += 2


async def test_steps_count_and_waiting_does_not(cpu: Cpu) -> None:
    event = asyncio.Event()
    metered = Metered(_waits(cpu, event))

    async def others() -> None:
        cpu.spent += 50
        event.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(_await(metered))
        group.create_task(others())
    assert metered.seconds == 3


async def _await(metered: Metered[None]) -> None:
    await metered


async def test_real_work_counts_by_its_thread() -> None:
    async def sleep_and_compute() -> None:
        time.sleep(0.2)
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        await asyncio.to_thread(sum, range(10_000_000))

    metered = Metered(sleep_and_compute())
    await metered
    assert metered.seconds >= 0.05


async def test_the_result_comes_back_and_so_does_an_error(cpu: Cpu) -> None:
    assert await cpu.budget().spend("a", cpu.work()) == "done"

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        await cpu.budget().spend("a", fails())


async def test_work_is_cancelled_through_its_meter(cpu: Cpu) -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    task = asyncio.create_task(cpu.budget().spend("a", waits()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]


async def test_a_timeout_within_the_work_is_met_there(cpu: Cpu) -> None:
    async def gives_up() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "gave up"
        return "never"

    assert await cpu.budget().spend("a", gives_up()) == "gave up"


async def test_who_keeps_the_budget_never_rests(cpu: Cpu) -> None:
    budget = cpu.budget()
    await budget.spend("a", _busy(cpu, 0.25))
    assert budget.rest("a") == 0
    assert cpu.told == []


async def test_who_overspends_rests_until_the_share_is_kept_and_the_others_do_not(cpu: Cpu) -> None:
    budget = cpu.budget()
    await budget.spend("a", _busy(cpu, 1.0))
    assert budget.rest("a") == pytest.approx(20)
    assert budget.rest("b") == 0
    cpu.now += 15
    assert budget.rest("a") == pytest.approx(5)
    cpu.now += 15
    assert budget.rest("a") == 0


async def test_failed_work_counts_as_well(cpu: Cpu) -> None:
    async def fails() -> None:
        cpu.spent += 1
        raise ValueError

    budget = cpu.budget()
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        await budget.spend("a", fails())
    assert budget.rest("a") > 0


@pytest.mark.parametrize(("doubling", "rests"), [(False, [20, 20, 20]), (True, [20, 40, 80])])
async def test_a_rest_doubles_where_the_same_is_likely_to_happen_again(
    cpu: Cpu, doubling: bool, rests: list[float]
) -> None:
    budget, found = cpu.budget(doubling=doubling), []
    for _ in rests:
        await budget.spend("a", _busy(cpu, 1.0))
        found.append(budget.rest("a"))
    assert found == pytest.approx(rests)


async def test_no_rest_is_longer_than_ten_minutes(cpu: Cpu) -> None:
    budget = cpu.budget(doubling=True)
    for _ in range(3000):
        await budget.spend("a", _busy(cpu, 10.0))
    assert budget.rest("a") == 600


async def test_it_is_told_when_it_begins_with_numbers_and_once_more_after_it_had_ended(cpu: Cpu) -> None:
    budget = cpu.budget(doubling=True)
    for spent in (1.0, 1.0, 0.1, 0.5):
        await budget.spend("a", _busy(cpu, spent))
    told = [told for _, told in cpu.told]
    assert [(each.spent, each.budget, each.rest) for each in told] == [
        pytest.approx((1.0, 0.25, 20)),
        pytest.approx((0.5, 0.25, 10)),
    ]


async def test_a_key_that_is_forgotten_begins_anew(cpu: Cpu) -> None:
    budget = cpu.budget()
    await budget.spend("a", _busy(cpu, 1.0))
    budget.forget("a")
    budget.forget("unknown")
    assert budget.rest("a") == 0
