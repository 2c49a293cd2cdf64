"""What ``outrider simulate`` replays policies against: tables, a formula, or engines event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from outrider.performance.tables_file import TableError, read_tables, select
from outrider.performance.throughput_table import ThroughputTable
from outrider_lab.engines.event_fleet import Plant
from outrider_lab.engines.formula_engine import FormulaPhase
from outrider_lab.engines.formulas_file import Formula, read_formulas
from outrider_lab.figures import Figures
from outrider_lab.limits import LimitFigures, under_limit
from outrider_lab.replay import Replay
from outrider_lab.scenario_runs import check_scenario, run_scenario, scenario_map
from outrider_lab.scenarios import CANDIDATES, EventScenario, FormulaScenario
from outrider_lab.table_runs import Setting, check_tuner, run_table
from outrider_lab.traffic.requests import Trace, Traffic


class Engine(StrEnum):
    """How engines are simulated."""

    TABLE = "table"
    FORMULA = "formula"
    EVENTS = "events"


@dataclass(frozen=True)
class Load:
    """Traffic of formulas and events.

    texts: data sets, the phases take turns. rates: requests per second, one phase each; empty: closed load.
    """

    texts: tuple[str, ...] = ()  # empty: the first of the formula
    rates: tuple[float, ...] = ()
    prompt_tokens: float = 400.0  # median
    output_tokens: float = 200.0  # median
    idle_tax: float = 0.05  # relative; by so much longer takes a step with K=0 beside a drafter


@dataclass(frozen=True)
class Subject:
    """One of them.

    check: raises ValueError for a policy that it cannot run.
    under: judges a run by a limit on the pause, in seconds; None where engines have no single steps.
    extrapolated: loads.
    """

    name: str
    check: Callable[[str], None]
    run: Callable[[str], tuple[Replay, Figures]]
    under: Callable[[Replay, float], LimitFigures] | None = None
    notes: tuple[str, ...] = ()
    extrapolated: tuple[int, ...] = ()


def subjects(engine: Engine, path: Path, name: str | None, setting: Setting, load: Load) -> Sequence[Subject]:
    """The named one of a file, or all.

    Raises:
        TableError: the file cannot be used, or names no such table, formula or data set.
    """
    if engine is Engine.TABLE:
        return [_of_table(table, setting) for table in select(read_tables(path), name)]
    formulas = read_formulas(path)
    if name is not None and name not in formulas:
        raise TableError(f"no formula {name!r}, there are: {', '.join(formulas)}")
    chosen = [formulas[name]] if name is not None else list(formulas.values())
    make = _formula_scenario if engine is Engine.FORMULA else _event_scenario
    return [_of_scenario(make(formula, setting, load), setting) for formula in chosen]


def _of_table(table: ThroughputTable, setting: Setting) -> Subject:
    beyond = tuple(load for load in setting.loads if table.extrapolates(load))
    notes = []
    if table.ignored:
        notes.append(f"table {table.name}: unknown keys are ignored: {', '.join(table.ignored)}")
    if beyond:
        measured = f"{table.batch_sizes[0]} to {table.batch_sizes[-1]}"
        listed = ", ".join(map(str, beyond))
        notes.append(f"table {table.name} was measured at {measured} streams; extrapolated: {listed}")
    return Subject(
        table.name,
        lambda tuner: check_tuner(table, tuner),
        lambda tuner: run_table(table, tuner, setting),
        notes=tuple(notes),
        extrapolated=beyond,
    )


def _of_scenario(scenario: FormulaScenario | EventScenario, setting: Setting) -> Subject:
    errors = setting.map_errors
    step_times = None if errors is None else scenario_map(scenario, errors)
    return Subject(
        scenario.name,
        lambda tuner: check_scenario(scenario, tuner),
        lambda tuner: run_scenario(scenario, tuner, setting.policy, step_times=step_times),
        (lambda run, limit: under_limit(run, scenario, limit))
        if isinstance(scenario, EventScenario)
        else None,
    )


def _formula_scenario(formula: Formula, setting: Setting, load: Load) -> FormulaScenario:
    """The cache holds a request's prompt and half its answer, in the mean of its life."""
    context = load.prompt_tokens + load.output_tokens / 2
    texts = _texts(formula, load, len(setting.loads))
    phases = tuple(
        FormulaPhase(streams, setting.dwell, formula.acceptance[text], context)
        for streams, text in zip(setting.loads, texts, strict=True)
    )
    return FormulaScenario(
        formula.name,
        replace(formula.step, idle_tax=load.idle_tax),
        phases,
        candidates=_candidates(formula, texts),
        interval=setting.interval,
        seed=setting.seed,
        noise=setting.noise,
    )


def _event_scenario(formula: Formula, setting: Setting, load: Load) -> EventScenario:
    arrivals: Sequence[tuple[int | None, float | None]] = [(None, rate) for rate in load.rates] or [
        (streams, None) for streams in setting.loads
    ]
    texts = _texts(formula, load, len(arrivals))
    phases = tuple(
        Traffic(
            setting.dwell,
            formula.acceptance[text],
            rate=rate,
            streams=streams,
            prompt=load.prompt_tokens,
            output=load.output_tokens,
            label=f"{text}, {streams} streams" if rate is None else f"{text}, {rate:g} requests/s",
        )
        for (streams, rate), text in zip(arrivals, texts, strict=True)
    )
    plant = Plant(
        replace(formula.step, idle_tax=load.idle_tax), noise=setting.noise, scrape_interval=setting.interval
    )
    return EventScenario(
        formula.name,
        plant,
        Trace(phases, seed=setting.seed),
        candidates=_candidates(formula, texts),
        interval=setting.interval,
    )


def _texts(formula: Formula, load: Load, phases: int) -> list[str]:
    named = load.texts or tuple(formula.acceptance)[:1]
    for text in named:
        if text not in formula.acceptance:
            known = ", ".join(formula.acceptance)
            raise TableError(f"--text: formula {formula.name} has no data set {text!r}, there are: {known}")
    return [named[index % len(named)] for index in range(phases)]


def _candidates(formula: Formula, texts: Sequence[str]) -> tuple[int, ...]:
    """No K beyond the positions of which an acceptance is known."""
    known = min(len(formula.acceptance[text]) for text in texts)
    return tuple(k for k in CANDIDATES if k <= known)
