"""The result of a check as one page of HTML that loads nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from outrider.pictures.charts import Bar, Line, Panel, bars_chart, lines_chart
from outrider.pictures.page import document, picture, table
from tests.gpu.record import PartRecord, Record, Status
from tests.gpu.verdicts import Check, Verdict

_HEADS = ("check", "verdict", "difference", "95 % interval", "limit", "pairs")


def page(record: Record, titles: Mapping[str, str]) -> str:
    """titles: of the parts, by their names without the method."""
    about: Mapping[str, Any] = record.about
    dry = about["evidence"] != "GPU"
    heading = "Dry run of the GPU check" if dry else "GPU check"
    body = [
        f"<h1>{heading}</h1>",
        _summary(record, dry=dry),
        "<h2>Verdicts</h2>",
        *_verdicts(record),
        "<h2>How it was measured</h2>",
        _about(about),
        *(_pictures(record)),
        "<h2>Parts</h2>",
        table(("part", "state", "seconds", "why"), _parts(record, titles), words="why"),
        "<h2>Starts</h2>",
        _starts(record),
    ]
    return document(f"{heading}, {about['date'][:10]}", "\n".join(body))


def _summary(record: Record, *, dry: bool) -> str:
    about: Mapping[str, Any] = record.about
    checks = record.checks()
    verdicts = ", ".join(
        f"{sum(check.verdict is verdict for check in checks)} {verdict}"
        for verdict in Verdict
        if any(check.verdict is verdict for check in checks)
    )
    note = "Figures of a dry run say nothing about a GPU. " if dry else ""
    device, release = about["device"]["name"], about["device"]["vllm"]
    source = f"{about['evidence']}: {device}, vLLM {release}, commit {about['commit']}, {about['command']}"
    return (
        f'<p class="verdict" style="--mark:#0072B2">{note}Checks: {verdicts or "none"}.</p>'
        f'<p class="faint">{escape(source)}</p>'
    )


def _verdicts(record: Record) -> Iterator[str]:
    """First the checks, then what did not run."""
    rows = [
        (f"{name}: {check.name}", *_cells(check))
        for name, part in record.parts.items()
        for check in part.checks
    ]
    yield table(_HEADS, rows, words="check")
    missing = [name for name, part in record.parts.items() if part.status is not Status.DONE]
    if missing:
        yield f"<p>Not measured: {escape('; '.join(missing))}. The table of parts says why.</p>"


def _cells(check: Check) -> tuple[str, str, str, str, str]:
    limit = "" if check.limit_percent is None else f"{check.limit_percent:g} %"
    figures: Mapping[str, Any] = check.figures
    match figures:
        case {"median_percent": median, "interval_95_percent": [low, high], "pairs": pairs}:
            return check.verdict, f"{median:+.2f} %", f"{low:+.2f} to {high:+.2f} %", limit, str(pairs)
        case {"mean_percent": mean, "live_cells": cells}:
            return check.verdict, f"{mean:.2f} %", "", limit, str(cells)
    return check.verdict, "", "", limit, ""


def _about(about: Mapping[str, Any]) -> str:
    device, models = about["device"], about["models"]
    weights = "made without weights; vLLM accepts by chance" if models["made"] else "with weights"
    rows = [
        ("evidence", about["evidence"]),
        ("device", device["name"]),
        ("vLLM", device["vllm"]),
        ("models", f"{models['target']}, {models['drafter']} ({weights})"),
        ("command", about["command"]),
        ("commit", about["commit"]),
        ("date", about["date"]),
        ("minutes", str(about["minutes"])),
    ]
    return table(("what", "value"), rows)


def _parts(record: Record, titles: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    for name, part in record.parts.items():
        method, _, short = name.partition(", ")
        yield f"{titles.get(short, short)} ({method})", part.status, f"{part.seconds:.0f}", part.why


def _starts(record: Record) -> str:
    heads = (
        "engine",
        "seconds",
        "graphs, s",
        "graphs, GiB",
        "weights, GiB",
        "cache, tokens",
        "runner",
        "graphs",
    )
    rows = []
    for name, start in record.starts.items():
        found: Any = start
        log, state = found["log"], found["state"]
        figures = (log["graph_seconds"], log["graph_gib"], log["loaded_gib"], log["cache_tokens"])
        texts = ["" if figure is None else f"{figure:g}" for figure in (found["seconds"], *figures)]
        rows.append((name, *texts, str(state["runner"]), str(state["cudaGraphs"])))
    return table(heads, rows)


def _pictures(record: Record) -> Iterator[str]:
    for found in record.tables:
        yield from _table_picture(found)
    for name, part in record.parts.items():
        yield from _bars(name, part)


def _table_picture(found: Mapping[str, Any]) -> Iterator[str]:
    sizes, ks = found["batch_sizes"], found["num_speculative_tokens"]
    if len(sizes) < 2:
        return
    lines = [
        Line(
            f"K={k}",
            [(size, row[column]) for size, row in zip(sizes, found["tokens_per_second"], strict=True)],
        )
        for column, k in enumerate(ks)
    ]
    plain = found["no_speculation_tokens_per_second"]
    if plain is not None:
        lines.append(Line("no drafter", list(zip(sizes, plain, strict=True)), dashed=True))
    alt = f"Tokens per second of {found['name']} by streams, a line per K."
    yield f"<h2>Tokens per second by streams: {escape(found['name'])}</h2>"
    yield picture(lambda width: lines_chart([Panel("tokens/s", lines)], axis="streams", alt=alt, width=width))


def _bars(name: str, part: PartRecord) -> Iterator[str]:
    """Tokens per second of the arms of a comparison, at the largest load."""
    rates: Any = part.figures.get("tokens_per_second", {})
    streams = sorted({int(each) for by_load in rates.values() for each in by_load})
    if not streams:
        return
    most = str(streams[-1])
    bars = [
        Bar(arm, by_load[most], by_load[most], by_load[most], f"{by_load[most]:g}")
        for arm, by_load in rates.items()
        if most in by_load
    ]
    alt = f"Tokens per second of each engine with {most} streams."
    yield f"<h2>{escape(name)}: tokens per second, {most} streams</h2>"
    yield picture(lambda width: bars_chart(bars, alt=alt, width=width))


def console(checks: Sequence[Check]) -> str:
    """One line per check."""
    return "\n".join(f"{check.verdict:8}  {check.name}  {'  '.join(_cells(check)[1:])}" for check in checks)
