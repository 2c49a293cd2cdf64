"""Run all measurements of a bench and of a sweep on a live model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from outrider.api.status import DecisionRecord
from outrider.bench.arms import Arm, arms_of, interleaved
from outrider.bench.guidellm import Slice
from outrider.bench.result import Result, Setting, Unread
from outrider.bench.sweep import Cell, Sweep
from outrider.bench.verdict import MIN_ROUNDS
from outrider.cli.bench.options import Job
from outrider.cli.bench.runner import Bench, Notify, benching
from outrider.cli.common.output import CommandError
from outrider_protocol.schedule import Schedule

_NOT_YET = Unread("the bench ended early.")

ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")


async def bench(
    job: Job,
    notify: Notify,
    keep: Callable[[Result], None],
    *,
    streams: int,
    rate: float | None,
    price_per_hour: float | None,
) -> None:
    """Measure every arm once per round, after a warm-up. price_per_hour: in dollars, if known.
    rate: requests per second in place of streams.

    keep: gets the result after each round from the second on, and at the end with the tuner's decisions.
    """
    async with benching(job, notify) as live:
        began = datetime.now(UTC).replace(microsecond=0)
        setting = Setting(
            live.there.namespace,
            job.name,
            streams,
            job.seconds,
            job.rounds,
            job.max_tokens,
            job.requests.seed,
            price_per_hour,
            live.simulated,
            rate,
        )

        async def measured(number: int, arm: Arm) -> Slice:
            found = await live.slice(arm.table, streams=streams, rate=rate)
            notify(f"round {number + 1} of {job.rounds}: {arm.name} {found.tokens_per_second:.0f} tokens/s")
            return found

        notify("warming up")
        await live.slice(None, streams=streams, rate=rate)
        async for slices in _by_round(arms_of(job.ks or live.candidates[-1:]), measured, job):
            keep(Result(setting, slices, _NOT_YET))
        keep(Result(setting, slices, await _decisions(live, began)))


async def sweep(job: Job, notify: Notify, keep: Callable[[Sweep], None], *, streams: tuple[int, ...]) -> None:
    """Measure every number of streams with every K once per round, after a warm-up.

    keep: gets the table after each round from the second on.
    """
    async with benching(job, notify) as live:
        cells = tuple(Cell(each, k) for each in streams for k in job.ks or live.candidates)

        async def measured(number: int, cell: Cell) -> float:
            found = await live.slice(Schedule.constant(cell.k), streams=cell.streams)
            line = f"{cell.streams} streams, K={cell.k}: {found.tokens_per_second:.0f} tokens/s"
            notify(f"round {number + 1} of {job.rounds}: {line}")
            return found.tokens_per_second

        notify("warming up")
        await live.slice(None, streams=max(streams))
        async for rates in _by_round(cells, measured, job):
            keep(Sweep(live.there.namespace, job.name, job.seconds, rates, live.simulated))


async def _by_round(
    items: Sequence[ItemT], measured: Callable[[int, ItemT], Awaitable[FoundT]], job: Job
) -> AsyncIterator[Mapping[ItemT, Sequence[FoundT]]]:
    """All measurements, after each complete round from the first that has an interval."""
    found: dict[ItemT, tuple[FoundT, ...]] = dict.fromkeys(items, ())
    for number, item in interleaved(items, rounds=job.rounds, seed=job.requests.seed):
        found[item] += (await measured(number, item),)
        if number + 1 >= MIN_ROUNDS and all(len(each) > number for each in found.values()):
            yield dict(found)


async def _decisions(live: Bench, since: datetime) -> Sequence[DecisionRecord] | Unread:
    """The decisions, or why they could not be read; the measurements count without them."""
    try:
        return await live.decisions(since)
    except CommandError as error:
        return Unread(str(error))
