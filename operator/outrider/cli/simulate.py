"""``outrider simulate``: replay policies against throughput tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from outrider.api.text import whole_number
from outrider.cli.exit_codes import cannot
from outrider.cli.simulate_picture import picture
from outrider.simulate.engines.table import ThroughputTable
from outrider.simulate.engines.tables_file import TableError, read_tables, select
from outrider.simulate.figures import Figures
from outrider.simulate.maps import MapErrors
from outrider.simulate.rivals.contenders import NAMES
from outrider.simulate.table_runs import Setting, check_tuner, run_table

_COLUMNS = ("table", "policy", "tok/s", "regret", "overall", "worst loss", "switches", "probes", "to 95 %")
_MOST_STREAMS = 1_000_000


def simulate(
    tables: Annotated[Path, typer.Option(help="JSON file with throughputs by batch size and K.")],
    name: Annotated[str | None, typer.Option(help="Only this table. Default: all of the file.")] = None,
    load: Annotated[str, typer.Option(help="Streams per pod, one phase each.")] = "1,8,32,2",
    dwell: Annotated[float, typer.Option(help="Seconds per phase.")] = 300.0,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(NAMES)}. Repeat it, or separate by commas. Default: outrider."),
    ] = None,
    noise: Annotated[
        float, typer.Option(help="Relative standard deviation of a measurement of 10 s.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Of the noise. The same seed gives the same output.")] = 0,
    interval: Annotated[float, typer.Option(help="Seconds between decisions.")] = 5.0,
    map_error: Annotated[
        float | None,
        typer.Option(
            help="Give the law a map of step times; relative standard error of a cell. Default: none."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture here, as SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, with every phase.")] = False,
) -> None:
    """Replay the tuning law, or another policy, against measured throughputs. Needs no cluster."""
    loads = tuple(_whole("--load", i, part) for i, part in enumerate(load.split(",")))
    policies = [part.strip() for given in policy or ["outrider"] for part in given.split(",")]
    for option, value, least in (
        ("--dwell", dwell, 1.0),
        ("--interval", interval, 0.1),
        ("--noise", noise, 0.0),
        ("--map-error", map_error or 0.0, 0.0),
    ):
        if not least <= value < float("inf"):
            raise _refused(f"{option} is {value:g}, must be at least {least:g}")
    if plot is not None and (plot.suffix != ".svg" or not plot.parent.is_dir()):
        raise _refused(f"--plot is {plot}, must be a file .svg in a folder that is there")
    if seed < 0:
        raise _refused(f"--seed is {seed}, must not be negative")
    setting = Setting(
        loads=loads,
        dwell=dwell,
        noise=noise,
        interval=interval,
        seed=seed,
        map_errors=None if map_error is None else MapErrors(map_error),
    )
    chosen = _tables(tables, name, policies)
    for note in _notes(chosen, loads):
        typer.echo(f"Note: {note}", err=True)
    pairs = [(table, tuner) for table in chosen for tuner in policies]
    with typer.progressbar(pairs, label="replaying", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        runs = [(table, tuner, *run_table(table, tuner, setting)) for table, tuner in bar]
    if plot is not None:
        plot.write_text(picture(runs, dwell=dwell), encoding="utf-8")
    results = [(table, tuner, found) for table, tuner, _, found in runs]
    typer.echo(_json(setting, results) if as_json else _text(results))


def _refused(complaint: str) -> typer.Exit:
    return cannot("simulate", complaint)


def _whole(option: str, index: int, text: str) -> int:
    number = whole_number(text.strip(), least=1, most=_MOST_STREAMS)
    if number is None:
        raise _refused(f"{option}: entry {index} is {text.strip()!r}, must be a whole number from 1")
    return number


def _tables(path: Path, name: str | None, policies: Sequence[str]) -> list[ThroughputTable]:
    """The chosen tables, each with every policy checked, before anything runs."""
    try:
        chosen = select(read_tables(path), name)
    except TableError as error:
        raise _refused(str(error)) from error
    for table in chosen:
        for tuner in policies:
            try:
                check_tuner(table, tuner)
            except ValueError as error:
                raise _refused(f"--policy, table {table.name}: {error}") from error
    return chosen


def _notes(tables: Sequence[ThroughputTable], loads: Sequence[int]) -> Iterator[str]:
    """What a reader of the figures must know of the tables."""
    for table in tables:
        if table.ignored:
            yield f"table {table.name}: unknown keys are ignored: {', '.join(table.ignored)}"
        beyond = [str(load) for load in loads if table.extrapolates(load)]
        if beyond:
            measured = f"{table.batch_sizes[0]} to {table.batch_sizes[-1]}"
            yield f"table {table.name} was measured at {measured} streams; extrapolated: {', '.join(beyond)}"


Results = Sequence[tuple[ThroughputTable, str, Figures]]


def _json(setting: Setting, results: Results) -> str:
    rows = [
        {
            "table": table.name,
            "policy": tuner,
            "mean_goodput": f.goodput,
            "regret_after_120_s": f.regret,
            "regret_overall": f.overall_regret,
            "worst_loss_against_no_speculation": f.worst_loss,
            "switches": f.switches,
            "probe_share": f.probe_share,
            "seconds_to_95_percent": f.seconds_to_optimum,
            "extrapolated_loads": [load for load in setting.loads if table.extrapolates(load)],
            "phases": [asdict(phase) for phase in f.phases],
        }
        for table, tuner, f in results
    ]
    given = {
        "load": setting.loads,
        "dwell": setting.dwell,
        "noise": setting.noise,
        "interval": setting.interval,
        "seed": setting.seed,
        "map_error": None if setting.map_errors is None else setting.map_errors.cell,
    }
    return json.dumps({"setting": given, "results": rows}, indent=2, allow_nan=False)


def _text(results: Results) -> str:
    """One line per table and policy; shares in percent, times in seconds."""
    rows = [_COLUMNS, *(_row(table, tuner, f) for table, tuner, f in results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(table: ThroughputTable, tuner: str, f: Figures) -> tuple[str, ...]:
    return (
        table.name,
        tuner,
        f"{f.goodput:.1f}",
        "-" if f.regret is None else _percent(f.regret),
        _percent(f.overall_regret),
        _percent(f.worst_loss),
        str(f.switches),
        _percent(f.probe_share),
        "never" if f.seconds_to_optimum is None else f"{f.seconds_to_optimum:.0f} s",
    )


def _percent(share: float) -> str:
    return f"{100 * share + 0.0:.1f} %".replace("-0.0 %", "0.0 %")
