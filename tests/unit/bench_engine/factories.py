from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from examples.kit.loads import Load, Prompts
from examples.kit.records import Count, SpeedupSample, StatusSample, Stretch
from outrider.telemetry.series import PodKey, PodSeries
from outrider.telemetry.source import MetricsError
from outrider_protocol.schedule import Schedule
from tests.bench.engine.figures import Analysis
from tests.bench.engine.plan import HAND, NONE, OUTRIDER, STATIC, Settings
from tests.bench.engine.prediction import Prediction
from tests.bench.engine.rates import Rate
from tests.bench.engine.records import Push, Slice, UnitRecord
from tests.bench.engine.result import Conditions, Result, result
from tests.bench.engine.trace import parse_trace

CANDIDATES = (0, 1, 3)
ARMS = (NONE, STATIC, HAND, "acceptance", "ema", "model", OUTRIDER)


def settings(
    trace: str = "1:60,24:60,1:40",
    *,
    seed: int = 0,
    repeats: int = 2,
    rounds: int = 4,
    arms: tuple[str, ...] = ARMS,
    texts: tuple[str, ...] = (),
) -> Settings:
    return Settings(
        trace=parse_trace(trace, Prompts.CODE, texts),
        seed=seed,
        repeats=repeats,
        arms=arms,
        candidates=CANDIDATES,
        rounds=rounds,
        slice_seconds=4.0,
        switch_seconds=2.0,
        scrape_seconds=10.0,
        tick_seconds=10.0,
        max_tokens=128,
        manifest="",
    )


def code(streams: int) -> Load:
    return Load(streams, Prompts.CODE)


def counts(tokens: Sequence[int], *, start: float = 0.0) -> tuple[Count, ...]:
    """One second for each entry."""
    return tuple(
        Count(time=start + second, seconds=1.0, tokens=count, requests=1, failed=0)
        for second, count in enumerate(tokens, 1)
    )


def a_stretch(tokens: Sequence[int], *, streams: int = 1, start: float = 0.0) -> Stretch:
    return Stretch(streams=streams, prompts="code", counts=counts(tokens, start=start))


def a_block(number: int, rates: Mapping[str, int], *, streams: int = 1) -> UnitRecord:
    """Slices of 5 s, the first second of which is the push."""
    tokens: list[int] = []
    slices = []
    for arm, rate in rates.items():
        slices.append(Slice(arm=arm, since=len(tokens) + 1.0, until=len(tokens) + 5.0))
        tokens += [7, *(rate,) * 4]
    arm = NONE if set(rates) == {NONE} else STATIC
    return UnitRecord(
        key=f"{arm} {number} x{streams}",
        arm=arm,
        number=number,
        stretches=(a_stretch(tokens, streams=streams),),
        slices=tuple(slices),
    )


def a_run(
    policy: str,
    phases: Sequence[tuple[int, Sequence[int]]],
    *,
    number: int = 0,
    statuses: Sequence[StatusSample] = (),
) -> UnitRecord:
    """phases: streams and tokens of each second."""
    start, stretches = 0.0, []
    for streams, tokens in phases:
        stretches.append(a_stretch(tokens, streams=streams, start=start))
        start = stretches[-1].end
    return UnitRecord(
        key=f"{policy} {number}",
        arm=policy,
        number=number,
        stretches=tuple(stretches),
        statuses=tuple(statuses),
    )


def a_status(
    time: float, table: str, *, speedup: tuple[float, float, float] | None = None, measured_at: float = 0.0
) -> StatusSample:
    """speedup: low, ratio, high."""
    told = None
    if speedup is not None:
        low, ratio, high = speedup
        told = SpeedupSample(ratio=ratio, low=low, high=high, reference="Probe", measured_at=measured_at)
    return StatusSample(time=time, table=table, epoch=1, acceptance_rate=None, speedup=told)


def rates(*values: float) -> tuple[Rate, ...]:
    """One second for each, in rounds 0, 1, 2, …"""
    return tuple(Rate(number, value, 1.0) for number, value in enumerate(values))


class FakeEngine:
    """Confirms every table at once, on the clock of the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tables: list[str] = []

    def clock(self) -> float:
        return self.now

    async def put(self, table: Schedule) -> Push:
        self.tables.append(str(table.merged()))
        return Push(asked=self.now, table=str(table), in_force=self.now)


class FakeSource:
    """Answers with what a test puts in, or fails."""

    def __init__(self) -> None:
        self.series: dict[PodKey, PodSeries] = {}
        self.error: MetricsError | None = None
        self.lookbacks: list[float] = []

    async def fetch(
        self,
        lookback_seconds: float,
        *,
        resting: Set[PodKey] = frozenset(),  # noqa: ARG002
    ) -> Mapping[PodKey, PodSeries]:
        self.lookbacks.append(lookback_seconds)
        if self.error is not None:
            raise self.error
        return self.series


def conditions() -> Conditions:
    return Conditions(
        command="python -m tests.bench.engine",
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:10:00+00:00",
        commit="abc",
        plan="plan",
        trace="1:40,8:40",
        seed=0,
        repeats=1,
        rounds=2,
        slice_seconds=4.0,
        scrape_seconds=10.0,
        tick_seconds=10.0,
        max_tokens=128,
        temperature=0.0,
        arms=list(ARMS),
        candidates=[0, 3],
        hand_table="32:3,*:0",
        cluster="kind",
        kubernetes_version="v1",
        engine_image="engine",
        engine_version="0.32.0",
        outrider_version="0.1.0",
        node_cores=4,
        node_memory="16Gi",
        client_machine="Linux",
        load_average=[1.0],
    )


TRACE = parse_trace("1:40,8:40", Prompts.CODE)


def compared_units(*, eight: int = 396, ema: int = 300) -> list[UnitRecord]:
    statuses = [
        a_status(39, "*:3", speedup=(1.9, 2.0, 2.1), measured_at=35),
        a_status(41, "*:3"),
        a_status(52, "1:3,*:0"),
    ]
    return [
        *(a_block(number, {"0": 100, "3": 200, "hand": 200}) for number in range(2)),
        *(a_block(number, {"0": 400, "3": 300, "hand": 300}, streams=8) for number in range(2)),
        *(a_block(number, {NONE: 100}) for number in range(2)),
        *(a_block(number, {NONE: 400}, streams=8) for number in range(2)),
        a_run("ema", [(1, [200] * 40), (8, [ema] * 40)], statuses=[a_status(41, "*:3")]),
        a_run("outrider", [(1, [200] * 40), (8, [eight] * 40)], statuses=statuses),
    ]


def judged(found: list[UnitRecord]) -> Result:
    return result(Analysis(TRACE, found), conditions())


def predicted(arm: str, rate: float, regret: float) -> Prediction:
    return Prediction(arm=arm, tokens_per_second=rate, regret_whole=regret, regret_settled=regret)


def judged_beside(*predictions: Prediction) -> Result:
    return result(Analysis(TRACE, compared_units()), conditions(), predictions)
