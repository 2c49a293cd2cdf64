"""The parts of a check, the most valuable first. Each writes what it finds into its own record."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from outrider_protocol.engine_state import SelfTestState, SweepState
from tests.bench.k0.runs import measure
from tests.contract.engine import Engine
from tests.contract.measuring import scrape
from tests.gpu.cells import Load, Measured, mapped_cells, measured
from tests.gpu.comparisons import Claim, Clock, judged, rates, raw, rounds, tokens
from tests.gpu.device import Device
from tests.gpu.engines import Fleet
from tests.gpu.launches import Arm, launch
from tests.gpu.places import CPU
from tests.gpu.record import PartRecord, Record, table
from tests.gpu.rows import Launched, coverage_rows
from tests.gpu.verdicts import Cell, Check, Verdict, of_fact, of_map

LIVE_LIMIT, K0_LIMIT, RUNNER_LIMIT, PROFILE_LIMIT = 1.0, 2.0, 1.0, 3.0
"""Percent."""
TABLE_ROUNDS = 4


@dataclass(slots=True)
class Bench:
    """What all parts of one method share. publish: writes the results as they are known now."""

    fleet: Fleet
    device: Device
    loads: Sequence[Load]
    table_loads: Sequence[Load]
    record: Record
    publish: Callable[[], None]

    @property
    def k(self) -> int:
        """The K of the launch."""
        return self.fleet.models.k

    def start_of(self, arm: Arm) -> Mapping[str, Any] | None:
        """How an engine started, also in an earlier run that this one continues."""
        method = self.fleet.models.method
        if arm in self.fleet.starts:
            return self.fleet.starts[arm].described()
        found: Any = self.record.starts.get(f"{method}, {arm}")
        return None if found is None else dict(found)


Engines = Mapping[Arm, Engine]
Run = Callable[[Bench, Engines, Clock, PartRecord], None]


def part_name(bench: Bench, part: str) -> str:
    """The name of a part in the record."""
    return f"{bench.fleet.models.method}, {part}"


@dataclass(frozen=True, slots=True)
class Part:
    """One part.

    arms: engines that run side by side. sequence: engines that only start, one after the other. every_k: its
    one arm runs each K at each load of the table. obstacle: why this launch cannot show it; None where it
    can. alone: no engine of a later part runs beside its own. refused: a pattern of what an engine writes
    before it ends, if this machine cannot show it. reads: the part whose figures it needs.
    """

    name: str
    title: str
    run: Run
    arms: tuple[Arm, ...] = ()
    sequence: tuple[Arm, ...] = ()
    every_k: bool = False
    obstacle: Callable[[Bench], str | None] = field(default=lambda _: None)
    alone: bool = False
    refused: re.Pattern[str] | None = None
    reads: str | None = None

    def passes(self, bench: Bench) -> int:
        """Loads per round, over all arms."""
        if self.every_k:
            return len(bench.table_loads) * len(bench.fleet.models.candidates)
        return len(self.arms) * len(bench.loads)

    def lacks(self, bench: Bench) -> str | None:
        """Why the figures that it reads are not there; None where they are."""
        if self.reads is None or bench.record.done(part_name(bench, self.reads)):
            return None
        return f"the part {self.reads} did not finish, and this part reads its figures"


def first_page(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:
    """The README's launch: whether it can be tuned, what it counts, and every K at every load."""
    engine = engines[Arm.FIRST_PAGE]
    state: Mapping[str, Any] = engine.first_state
    live, self_test, profile = state["liveTuning"], state["selfTest"], state["startupProfile"]
    found.checks += [
        of_fact("the launch passes the self-test", self_test["state"] == SelfTestState.PASSED, self_test),
        of_fact("K can change while it runs", bool(live["possible"]), live),
        of_fact("it measures its startup profile", profile["state"] == SweepState.MEASURED, profile),
    ]
    before = scrape(engine)
    places = list(product(bench.table_loads, bench.fleet.models.candidates))
    seen: list[Measured] = []
    found.figures["profile"] = [_wire(cell) for cell in mapped_cells(engine)]
    for number, (load, k) in product(range(-1, TABLE_ROUNDS), places):
        if number > 0 and not clock.wants_more(len(seen)):
            break
        one = measured(engine, k, load, f"table{k}_{load.streams}_{number}_")
        if number >= 0:
            seen.append(one)
            found.figures["runs"] = [_run(each) for each in seen]
            bench.publish()
    disagreements = (scrape(engine) - before).disagreements()
    found.checks.append(
        of_fact("its counts equal vLLM's", not disagreements, {"disagreements": disagreements})
    )
    found.figures |= {
        "disagreements": disagreements,
        "places": [_place(seen, load.streams, k) for load, k in places],
        "live_cells": [_wire(each.cell) for each in seen if each.cell is not None],
    }
    write_table(bench)


def runner(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:
    """The operator's choice must not be the slower runner."""
    ks = dict.fromkeys(engines, bench.k)
    claim = Claim("V2 against V1", Arm.LIVE, Arm.LIVE_V1, RUNNER_LIMIT)
    _compare(bench, engines, ks, clock, found, claim)


def idle(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:
    """What speculation costs where it does not pay."""
    _compare(
        bench,
        engines,
        {Arm.LIVE: 0, Arm.FOLLOWING: 0},
        clock,
        found,
        Claim("K=0 against no drafter", Arm.LIVE, Arm.NONE, K0_LIMIT),
        Claim("K=0 with a drafter that follows against no drafter", Arm.FOLLOWING, Arm.NONE, None),
    )
    plain = {str(load.streams): round(_plain_rate(engines[Arm.NONE], load), 1) for load in bench.table_loads}
    found.figures["unspeculated"] = plain
    write_table(bench)


def static(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:
    """What a live schedule costs, at the K of the launch."""
    claim = Claim("live against static", Arm.LIVE, Arm.STATIC, LIVE_LIMIT)
    _compare(bench, engines, {Arm.LIVE: bench.k}, clock, found, claim)


def adaptive(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:
    """vLLM's adaptive verification against verifying every draft, and what the counters make of it."""
    claim = Claim("adaptive verification against none", Arm.ADAPTIVE, Arm.STATIC, None)
    counted = _compare(bench, engines, {}, clock, found, claim)[Arm.ADAPTIVE]
    drafted, verified, trimmed = (counted.get(name, 0.0) for name in ("drafted", "verified", "trimmed"))
    name = "verified and trimmed drafts add up to vLLM's drafts"
    found.checks.append(of_fact(name, verified + trimmed == drafted if drafted else None, counted))


def profile(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:  # noqa: ARG001  as every part
    """The startup profile of the first page's launch against its live steps."""
    figures = bench.record.parts[part_name(bench, FIRST_PAGE)].figures
    mapped, live = (_cells(figures[name]) for name in ("profile", "live_cells"))
    check = of_map("startup profile against live steps", mapped, live, limit_percent=PROFILE_LIMIT)
    found.checks.append(check)


def graphs(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:  # noqa: ARG001  as every part
    """Graph memory and time of a start, by number of candidates."""
    for arm in (Arm.TWO, Arm.THREE, Arm.LIVE):
        if not (bench.start_of(arm) or {}).get("alone"):
            bench.fleet.end(arm)
            bench.fleet.hold([arm])
    by_candidates = {Arm.TWO: 2, Arm.THREE: 3, Arm.LIVE: len(bench.fleet.models.candidates)}
    rows = []
    for arm, candidates in by_candidates.items():
        start = bench.start_of(arm)
        if start is not None:
            log = start["log"]
            taken = ("graph_gib", "graph_seconds", "engine_seconds", "compile_seconds", "cache_tokens")
            row = {
                "candidates": candidates,
                "seconds": start["seconds"],
                **{name: log[name] for name in taken},
            }
            rows.append(row)
    found.figures["starts"] = rows
    known = len(rows) > 1 and all(row["graph_gib"] is not None for row in rows)
    name = "graph memory and start time by number of candidates"
    found.checks.append(Check(name, None, Verdict.SHOWN if known else Verdict.NOT_RUN, {"rows": len(rows)}))


def rows(bench: Bench, engines: Engines, clock: Clock, found: PartRecord) -> None:  # noqa: ARG001  as every part
    """The rows of docs/coverage.md."""
    start = bench.start_of(Arm.FIRST_PAGE)
    assert start is not None, "the first page's launch did not start"
    figures: Any = bench.record.parts[part_name(bench, FIRST_PAGE)].figures
    models = bench.fleet.models
    gpu = "" if bench.fleet.place.dry else bench.device.name
    launched = Launched(
        start, figures.get("disagreements"), models.candidates, models.method, models.pair, gpu
    )
    found.checks += coverage_rows(launched)


FIRST_PAGE = "first-page"
NOT_ADAPTIVE = re.compile(r"AdaptiveVerificationUnavailable|Adaptive verification (?:\w+ )+.*")
"""Begins what Outrider's launcher or vLLM says where graphs or attention cannot."""


def _one_runner(bench: Bench) -> str | None:
    place = bench.fleet.place
    if launch(Arm.LIVE, bench.fleet.models, place).on_v1:
        return f"the operator launches {bench.fleet.models.method} on V1 here, so there is no other runner"
    return None


def _not_adaptive(bench: Bench) -> str | None:
    if launch(Arm.STATIC, bench.fleet.models, bench.fleet.place).on_v1 or bench.fleet.place.name == CPU.name:
        return "the engines run on V1 here, which has no adaptive verification"
    return None


PARTS: tuple[Part, ...] = (
    Part(
        FIRST_PAGE,
        "The README's launch, as the operator renders it",
        first_page,
        arms=(Arm.FIRST_PAGE,),
        every_k=True,
        alone=True,
    ),
    Part(
        "profile",
        "The startup profile against live steps",
        profile,
        reads=FIRST_PAGE,
    ),
    Part(
        "rows",
        "Rows of the coverage page",
        rows,
        reads=FIRST_PAGE,
    ),
    Part(
        "k0",
        "K=0 against a launch without a drafter",
        idle,
        arms=(Arm.LIVE, Arm.NONE, Arm.FOLLOWING),
    ),
    Part(
        "static",
        "A live schedule against a fixed K",
        static,
        arms=(Arm.LIVE, Arm.STATIC),
    ),
    Part(
        "adaptive",
        "vLLM's adaptive verification, on and off",
        adaptive,
        arms=(Arm.STATIC, Arm.ADAPTIVE),
        obstacle=_not_adaptive,
        refused=NOT_ADAPTIVE,
    ),
    Part(
        "runner",
        "The V2 runner against V1",
        runner,
        arms=(Arm.LIVE, Arm.LIVE_V1),
        obstacle=_one_runner,
    ),
    Part(
        "graphs",
        "CUDA graphs and starts by number of candidates",
        graphs,
        sequence=(Arm.TWO, Arm.THREE, Arm.LIVE),
    ),
)


def _compare(
    bench: Bench, engines: Engines, ks: Mapping[Arm, int], clock: Clock, found: PartRecord, *claims: Claim
) -> Mapping[str, Mapping[str, float]]:
    """Run the loads, judge the claims, and return the tokens that every arm counted. ks: see `rounds`."""
    before = {arm: scrape(engine) for arm, engine in engines.items()}
    text = claims[0].slower.name.lower() + claims[0].faster.name.lower()
    counted: Mapping[str, Mapping[str, float]] = {}
    for runs in rounds(engines, ks, bench.loads, clock, text):
        counted = tokens(before, {arm: scrape(engine) for arm, engine in engines.items()})
        found.checks = list(judged(runs, claims))
        found.figures |= {"tokens_per_second": rates(runs), "tokens": counted, "runs": raw(runs)}
        bench.publish()
    return counted


def _plain_rate(engine: Engine, load: Load) -> float:
    """Tokens per second without a drafter."""
    return measure(
        engine, streams=load.streams, tokens=load.tokens, name=f"plain{load.streams}_"
    ).tokens_per_second


def write_table(bench: Bench) -> None:
    """The throughput table of the method, as far as it is known."""
    parts = bench.record.parts
    first: Any = parts[part_name(bench, FIRST_PAGE)].figures if part_name(bench, FIRST_PAGE) in parts else {}
    places = [(p["streams"], p["k"], p["tokens_per_second"], p["accepted"]) for p in first.get("places", [])]
    if not places:
        return
    idle_figures: Any = parts[part_name(bench, "k0")].figures if part_name(bench, "k0") in parts else {}
    plain = {int(streams): rate for streams, rate in idle_figures.get("unspeculated", {}).items()}
    about, models = bench.record.about, bench.fleet.models
    weights = (
        "weights without training, acceptance by chance" if models.pair.made else models.pair.target.name
    )
    evidence = "dry run on a CPU" if bench.fleet.place.dry else bench.device.name
    source = (
        f"{evidence}, vLLM {models.vllm}, {models.method}, {weights}; {about['command']}, {about['commit']}"
    )
    name = f"{product_name(bench)}_{models.method}"
    tables = [each for each in bench.record.tables if each["name"] != name]
    bench.record.tables = [*tables, table(name, places, unspeculated=plain, source=source)]


def product_name(bench: Bench) -> str:
    """A short name of the device, for the table."""
    words = bench.device.name.partition(",")[0].lower().split()
    return "_".join(word for word in words if word.isalnum()) or "device"


def _place(seen: Sequence[Measured], streams: int, k: int) -> dict[str, object]:
    """The medians of one place."""
    here = [each for each in seen if (each.streams, each.k) == (streams, k)]
    accepted = [each.accepted_per_step for each in here if each.accepted_per_step is not None]
    return {
        "streams": streams,
        "k": k,
        "tokens_per_second": round(statistics.median(each.tokens_per_second for each in here), 1),
        "accepted": round(statistics.median(accepted), 3) if accepted else None,
        "rounds": len(here),
    }


def _run(one: Measured) -> dict[str, object]:
    """One load, as it was measured."""
    return {
        "streams": one.streams,
        "k": one.k,
        "tokens_per_second": round(one.tokens_per_second, 1),
        "accepted": one.accepted_per_step,
    }


def _wire(cell: Cell) -> list[float]:
    return [cell.batch, cell.k, cell.context, cell.seconds]


def _cells(wire: object) -> list[Cell]:
    assert isinstance(wire, list)
    return [Cell(batch, int(k), context, seconds) for batch, k, context, seconds in wire]


def kept(parts: Sequence[Part], side_by_side: int) -> tuple[Arm, ...]:
    """Engines that run while the first of these parts does: its own, and those of the next ones that fit."""
    own = parts[0].arms
    if parts[0].alone or not own:
        return own
    wanted = dict.fromkeys([*own, *(arm for part in parts[1:] if not part.alone for arm in part.arms)])
    return tuple(wanted)[: max(len(own), side_by_side)]


def waits(parts: Sequence[Part], running: Collection[Arm], side_by_side: int) -> dict[str, int]:
    """How often each part waits for engines to start, if the parts run one after the other. Engines that may
    run side by side start together."""
    there, found = set(running), dict[str, int]()
    for number, part in enumerate(parts):
        missing = len(set(part.arms) - there)
        found[part.name] = (min(missing, 1) if side_by_side else missing) + len(part.sequence)
        if missing:
            there = set(kept(parts[number:], side_by_side))
        elif part.arms or part.sequence:
            there = set(part.arms) or set(part.sequence[-1:])
    return found
