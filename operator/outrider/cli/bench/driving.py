"""Drives the slices of a bench and of a sweep on a live model."""

from __future__ import annotations

from datetime import UTC, datetime

from outrider.api.schedule import Schedule
from outrider.bench.arms import Arm, arms_of, interleaved
from outrider.bench.guidellm import Slice
from outrider.bench.result import Result, Setting
from outrider.bench.sweep import Cell, Sweep
from outrider.cli.bench.runner import Job, Tell, benching


async def bench(
    job: Job, tell: Tell, *, streams: int, rounds: int, seed: int, price_per_hour: float | None
) -> Result:
    """Every arm once per round, after one slice that does not count. price_per_hour: dollars, if known.

    Raises:
        CannotRead: bad input, or something that a person has to see to; the message says what.
    """
    async with benching(job, tell) as live:
        began = datetime.now(UTC).replace(microsecond=0)
        arms = arms_of(job.ks or live.candidates[-1:])
        setting = Setting(
            live.namespace,
            job.name,
            streams,
            job.seconds,
            rounds,
            job.max_tokens,
            seed,
            price_per_hour,
            live.simulated,
        )
        slices: dict[Arm, list[Slice]] = {arm: [] for arm in arms}
        tell("warming up")
        await live.slice(None, streams=streams)
        for number, arm in interleaved(arms, rounds=rounds, seed=seed):
            found = await live.slice(arm.table, streams=streams)
            slices[arm].append(found)
            tell(f"round {number + 1} of {rounds}: {arm.name} {found.tokens_per_second:.0f} tokens/s")
        decisions = await live.decisions(began)
    return Result(setting, slices, decisions)


async def sweep(job: Job, tell: Tell, *, streams: tuple[int, ...], rounds: int, seed: int) -> Sweep:
    """Every number of streams with every K once per round, after one slice that does not count.

    Raises:
        CannotRead: as for `bench`.
    """
    async with benching(job, tell) as live:
        ks = job.ks or live.candidates
        rates: dict[Cell, list[float]] = {Cell(each, k): [] for each in streams for k in ks}
        tell("warming up")
        await live.slice(None, streams=max(streams))
        for number, cell in interleaved(tuple(rates), rounds=rounds, seed=seed):
            found = await live.slice(Schedule.constant(cell.k), streams=cell.streams)
            rates[cell].append(found.tokens_per_second)
            told = f"{cell.streams} streams, K={cell.k}: {found.tokens_per_second:.0f} tokens/s"
            tell(f"round {number + 1} of {rounds}: {told}")
    return Sweep(live.namespace, job.name, job.seconds, rates)
