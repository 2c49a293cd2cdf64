"""``outrider simulate``: replay policies against simulated engines."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, TypeAdapter, ValidationError

from outrider.api.quantity import Latency, duration_seconds
from outrider.api.text import whole_number
from outrider.api.tuning import Objective
from outrider.cli.common.options import with_shared_options
from outrider.cli.common.output import CommandError, Form, printed, require_charts
from outrider.controller.policy_from_spec import PAUSE_WEIGHT
from outrider.performance.tables_file import TableError
from outrider_lab.command.output import as_text, json_of
from outrider_lab.command.picture import picture
from outrider_lab.command.subjects import Engine, Load, Subject, subjects
from outrider_lab.figures import Figures
from outrider_lab.maps import MapErrors
from outrider_lab.rivals.contenders import NAMES
from outrider_lab.table_runs import Setting

_MAX_STREAMS = 1_000_000
_MAX_TRACED_STREAMS = 1024
"""With engines of events, which simulate each request and keep it in memory."""
_OF_EVENTS = ("rate", "latency_limit")
"""Options that need engines of events."""
_MAX_RATE = 1000.0  # requests per second


@with_shared_options
def simulate(
    form: Form | None,
    tables: Annotated[Path, typer.Option(help="JSON file with tables of throughputs, or with formulas.")],
    name: Annotated[str | None, typer.Option(help="Name of one table or formula. Default: all.")] = None,
    engine: Annotated[
        str, typer.Option(help=f"Kind of simulated engine: {', '.join(Engine)}. table: measured throughputs.")
    ] = Engine.TABLE,
    load: Annotated[
        str | None, typer.Option(help="Streams per pod, one phase for each number. Default: 1,8,32,2.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Requests per second, one phase for each number; in place of --load, with --engine events."
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Data sets of the formula, for the phases in turn. Default: the first one."),
    ] = None,
    prompt_tokens: Annotated[
        float | None,
        typer.Option(help="Median length of prompts in tokens; not with --engine table. Default: 400."),
    ] = None,
    output_tokens: Annotated[
        float | None,
        typer.Option(help="Median length of answers in tokens; not with --engine table. Default: 200."),
    ] = None,
    idle_tax: Annotated[
        float | None,
        typer.Option(
            help="Overhead of the idle drafter at K=0, as a ratio; not with --engine table. Default: 0.05."
        ),
    ] = None,
    dwell: Annotated[float, typer.Option(help="Seconds of each phase.")] = 300.0,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"Policies, separated by commas: {', '.join(NAMES)}. Default: outrider."),
    ] = None,
    noise: Annotated[
        float, typer.Option(help="Noise of a measurement of 10 s: standard deviation as a ratio.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the noise; the same seed gives the same output.")] = 0,
    interval: Annotated[float, typer.Option(help="Seconds between decisions.")] = 5.0,
    map_error: Annotated[
        float | None,
        typer.Option(
            help="Give the tuner a step-time profile with this standard "
            "error, as a ratio. Default: no profile."
        ),
    ] = None,
    latency_limit: Annotated[
        str | None,
        typer.Option(
            help="Limit of the pause between two outputs that nine of ten must keep, such as 50ms; with "
            "--engine events. Default: none."
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option(help=f"What the tuner maximises: {', '.join(Objective)}.")
    ] = Objective.GOODPUT,
    plot: Annotated[Path | None, typer.Option(help="File to write an SVG chart to.")] = None,
) -> None:
    """Replay the tuner, or another policy, against simulated engines.

    It needs no cluster.
    """
    kind = _engine(engine)
    given: dict[str, object] = {"rate": rate, "text": text, "prompt_tokens": prompt_tokens}
    given |= {"output_tokens": output_tokens, "idle_tax": idle_tax, "latency_limit": latency_limit}
    _see_to_use(kind, given)
    limit = None if latency_limit is None else _latency(latency_limit)
    if rate is not None and load is not None:
        raise CommandError("--load and --rate both set what arrives; give one of them")
    traffic = Load(
        texts=() if text is None else tuple(part.strip() for part in text.split(",")),
        rates=() if rate is None else tuple(_rate(i, part) for i, part in enumerate(rate.split(","))),
        prompt_tokens=_at_least("--prompt-tokens", 400.0 if prompt_tokens is None else prompt_tokens, 1.0),
        output_tokens=_at_least("--output-tokens", 200.0 if output_tokens is None else output_tokens, 2.0),
        idle_tax=_at_least("--idle-tax", 0.05 if idle_tax is None else idle_tax, 0.0),
    )
    setting = Setting(
        loads=_loads(kind, "1,8,32,2" if load is None else load),
        dwell=_at_least("--dwell", dwell, 1.0),
        noise=_at_least("--noise", noise, 0.0),
        interval=_at_least("--interval", interval, 0.1),
        seed=int(_at_least("--seed", seed, 0)),
        policy=_wishes(limit, objective),
        map_errors=None if map_error is None else MapErrors(_at_least("--map-error", map_error, 0.0)),
    )
    if plot is not None and (plot.suffix != ".svg" or not plot.parent.is_dir()):
        raise CommandError(f"--plot is {plot}, must be a file .svg in a folder that is there")
    if plot is not None:
        require_charts("--plot")
    policies = [part.strip() for each in policy or ["outrider"] for part in each.split(",")]
    chosen = _chosen(kind, tables, name, setting, traffic, policies)
    for note in (note for subject in chosen for note in subject.notes):
        typer.echo(f"Note: {note}", err=True)
    pairs = [(subject, tuner) for subject in chosen for tuner in policies]
    with typer.progressbar(pairs, label="replaying", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        runs = [(subject, tuner, *subject.run(tuner)) for subject, tuner in bar]
    _see_to_traffic(found for _, _, _, found in runs)
    if plot is not None:
        drawn = [(subject.name, tuner, run, found) for subject, tuner, run, found in runs]
        plot.write_text(picture(drawn, dwell=dwell), encoding="utf-8")
    results = [
        (subject, tuner, found, subject.under(run, limit) if subject.under and limit else None)
        for subject, tuner, run, found in runs
    ]
    if form is None:
        typer.echo(as_text(results))
    else:
        wanted: dict[str, JsonValue] = {"latency_limit": limit, "objective": objective}
        typer.echo(printed(json_of(_given(kind, setting, traffic) | wanted, results), form))


def _engine(name: str) -> Engine:
    try:
        return Engine(name)
    except ValueError:
        raise CommandError(f"--engine is {name}, must be one of {', '.join(Engine)}") from None


def _see_to_use(engine: Engine, given: Mapping[str, object]) -> None:
    """Refuse an option that has no effect."""
    for option, value in given.items():
        takes_it = engine is Engine.EVENTS or (engine is Engine.FORMULA and option not in _OF_EVENTS)
        if value is not None and not takes_it:
            raise CommandError(
                f"--{option.replace('_', '-')} has no effect with --engine {engine}; leave it out"
            )


def _at_least(option: str, value: float, least: float) -> float:
    if not least <= value < math.inf:
        raise CommandError(f"{option} is {value:g}, must be at least {least:g}")
    return value


def _latency(text: str) -> float:
    try:
        return duration_seconds(TypeAdapter(Latency).validate_python(text))
    except ValidationError:
        raise CommandError(
            f"--latency-limit is {text}, must be a time from 1ms to 10m, such as 50ms"
        ) from None


def _wishes(limit: float | None, objective: str) -> dict[str, float | None]:
    """Parameters of the tuner's policy, as a spec with these latency wishes has them."""
    if objective not in set(Objective):
        raise CommandError(f"--objective is {objective}, must be one of {', '.join(Objective)}")
    weight = {"pause_weight": PAUSE_WEIGHT} if objective == Objective.LATENCY else {}
    return {"inter_token_latency_limit": limit, **weight}


def _loads(engine: Engine, text: str) -> tuple[int, ...]:
    most = _MAX_STREAMS if engine is Engine.TABLE else _MAX_TRACED_STREAMS
    found = []
    for index, part in enumerate(text.split(",")):
        number = whole_number(part.strip(), least=1, most=most)
        if number is None:
            wanted_form = f"must be a whole number from 1 to {most}"
            raise CommandError(f"--load: entry {index} is {part.strip()!r}, {wanted_form}")
        found.append(number)
    return tuple(found)


def _rate(index: int, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= _MAX_RATE:
        raise CommandError(
            f"--rate: entry {index} is {text.strip()!r}, must be requests per second up to {_MAX_RATE:g}"
        )
    return number


def _see_to_traffic(runs: Iterable[Figures]) -> None:
    """Refuse a run in which engines answered nothing, since it has no goodput."""
    for phase in (phase for found in runs for phase in found.phases):
        if not (math.isfinite(phase.goodput) and math.isfinite(phase.best_goodput)):
            raise CommandError(f"nothing was answered in the phase {phase.label}: raise --rate or --dwell")


def _chosen(
    kind: Engine, path: Path, name: str | None, setting: Setting, traffic: Load, policies: list[str]
) -> list[Subject]:
    """The simulated engines to replay against, each checked with every policy before anything runs."""
    try:
        chosen = list(subjects(kind, path, name, setting, traffic))
    except TableError as error:
        raise CommandError(str(error)) from error
    for subject in chosen:
        for tuner in policies:
            try:
                subject.check(tuner)
            except ValueError as error:
                what = "table" if kind is Engine.TABLE else "formula"
                raise CommandError(f"--policy, {what} {subject.name}: {error}") from error
    return chosen


def _given(kind: Engine, setting: Setting, traffic: Load) -> dict[str, JsonValue]:
    given: dict[str, JsonValue] = {
        "engine": kind,
        "load": [] if traffic.rates else list(setting.loads),
        "dwell": setting.dwell,
        "noise": setting.noise,
        "interval": setting.interval,
        "seed": setting.seed,
        "map_error": None if setting.map_errors is None else setting.map_errors.cell,
    }
    if kind is Engine.TABLE:
        return given
    return given | {
        "rate": list(traffic.rates),
        "text": list(traffic.texts),
        "prompt_tokens": traffic.prompt_tokens,
        "output_tokens": traffic.output_tokens,
        "idle_tax": traffic.idle_tax,
    }
