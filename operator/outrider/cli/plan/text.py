"""The output of ``outrider plan``: a forecast as text of 80 columns, or for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap

from pydantic import JsonValue

from outrider.sizing.forecast import Expectation, Forecast, Question
from outrider.sizing.hf_config import UNKNOWN_WEIGHTS
from outrider.sizing.known_drafters import KnownDrafter
from outrider.sizing.memory import Verdict
from outrider.sizing.sources import Evidence
from outrider_protocol.methods import Method

_WIDTH = 80
_GB = 1e9
_CLEARLY = 1.02
"""Ratio by which another K must be faster to get a line."""


def text_of_forecast(
    question: Question, answer: Forecast, manifest: str | None, drafters: Sequence[KnownDrafter]
) -> str:
    """All sections as text. ``*`` marks what rests on an assumption."""
    parts = [_head(question, answer), *_memory(question, answer)]
    if answer.no_speeds is not None:
        parts += ["", *_wrapped(f"Speed: not known, since {answer.no_speeds}", "  ")]
    elif question.drafter.method is not Method.NONE:
        parts += ["", *_tokens(question, answer)]
    if answer.rows:
        parts += ["", *_speeds(question, answer)]
    if answer.warnings:
        parts += ["", *(line for text in answer.warnings for line in _wrapped(f"Note: {text}", "  "))]
    if manifest is not None:
        parts += ["", "A manifest to start with", manifest.rstrip()]
    elif question.fixed is not None and answer.no_speeds is None:
        parts += ["", "K is that of the file. --task TASK proposes another schedule."]
    parts += _known_drafters(question, drafters)
    parts += ["", "Where the numbers come from (* rests on an assumption)"]
    for word in Evidence:
        sources = [f"{s.what}: {s.where}" for s in answer.sources if s.evidence is word]
        parts += [line for text in sources for line in _wrapped(f"  {word:9} {text}", " " * 12)]
    return "\n".join(parts)


def _known_drafters(question: Question, drafters: Sequence[KnownDrafter]) -> list[str]:
    if not drafters:
        return []
    parts = ["", f"Published drafters of {question.target.name}, neither downloaded nor checked"]
    for each in drafters:
        length = "" if each.draft_tokens is None else f", {each.draft_tokens} draft tokens"
        parts.append(f"  {each.method:9} {each.uri}{length}")
    sources = dict.fromkeys(f"{each.source}, {each.read}" for each in drafters)
    return [*parts, *_wrapped(f"  read in {'; '.join(sources)}", "  ")]


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _head(question: Question, answer: Forecast) -> str:
    target, load = question.target, question.load
    streams = "stream" if load.streams == 1 else "streams"
    drafting = (
        "no drafter" if question.drafter.method is Method.NONE else f"drafts by {question.drafter.name}"
    )
    gpus = f"{question.spread.gpus} x {question.gpu.name}"
    title = f"{target.name} ({_precision(question)}), {drafting}, on {gpus}"
    rest = f"{question.task}, {load.streams} {streams} of {load.context} tokens"
    verdicts = (*_wrapped(verdict_of(answer), "  "), *_room(question, answer), *_gain(question, answer))
    return "\n".join([*verdicts, *_wrapped(title, "  "), rest, ""])


def _room(question: Question, answer: Forecast) -> Iterator[str]:
    """Memory that one GPU needs and has."""
    held = answer.memory
    if not (held.unknown or held.drafter_unknown):
        of_whole = f"{100 * question.memory_share:.0f} % of {question.gpu.memory_bytes / _GB:.1f}"
        yield f"{held.needed / _GB:.1f} GB needed, {held.available / _GB:.1f} GB usable ({of_whole})"


def _gain(question: Question, answer: Forecast) -> Iterator[str]:
    """The speedup at the load that was asked about, which the rows below have too."""
    streams = question.load.streams
    row = next((row for row in answer.rows if row.streams == streams), None)
    if row is not None and question.drafter.method is not Method.NONE:
        load = "1 stream" if streams == 1 else f"{streams} streams"
        yield f"speedup {row.speedup:.2f} at {load} with K={row.k}, {answer.evidence}"


def _precision(question: Question) -> str:
    known = not any(what.startswith(UNKNOWN_WEIGHTS) for what in question.target.unknown)
    return str(question.target.precision) if known else "weights not known"


def _memory(question: Question, answer: Forecast) -> Iterator[str]:
    held, target = answer.memory, question.target
    doubt = "?" if held.unknown else ""
    yield "Memory of each GPU in GB (1e9 bytes), formula"
    size = f"{target.parameters / 1e9:.1f} billion{doubt}, {_precision(question)}"
    per_token = held.cache_per_request / held.load.context
    for name, amount, note in (
        ("weights", None if held.unknown else held.weights, size),
        ("drafter", None if held.drafter_unknown else held.drafter, question.drafter.name),
        ("KV cache", None if held.unknown else held.cache, f"{per_token / 1e3:.0f} kB per token{doubt}"),
        ("graphs*", held.graphs, f"{len(answer.proposal.candidates)} values of K"),
        ("runtime*", held.runtime, ""),
    ):
        shown = "?" if amount is None else f"{amount / _GB:.1f}"
        yield f"  {name:10}{shown:>8}   {note}".rstrip()
    needed = "?" if held.unknown or held.drafter_unknown else f"{held.needed / _GB:.1f}"
    of_whole = f"{100 * question.memory_share:.0f} % of {question.gpu.memory_bytes / _GB:.1f}"
    yield f"  {'needed':10}{needed:>8}"
    yield f"  {'usable':10}{held.available / _GB:>8.1f}   {of_whole}, the memory of {question.gpu.name}"


def verdict_of(answer: Forecast) -> str:
    """The verdict on memory, in one line."""
    held = answer.memory
    room, load = held.streams_with_room, held.load
    if held.verdict is Verdict.NOT_KNOWN and held.unknown:
        unknown = f"whether it fits is not known: {', '.join(held.unknown)}"
        if all(what.startswith(UNKNOWN_WEIGHTS) for what in held.unknown):
            return unknown
        return f"{unknown}; start it once, vLLM logs the size of weights and cache"
    if held.verdict is Verdict.NOT_KNOWN:
        left = (held.available - held.before_cache - held.cache_per_request) / _GB
        return (
            f"whether it fits is not known: the drafter ({held.drafter_unknown}). Beside one request "
            f"{left:.1f} GB are left for it on each GPU; give its config.json with --drafter"
        )
    if held.verdict is Verdict.TOO_LARGE:
        refusal = f"does not fit: no room for one request of {load.context} tokens"
        ways = [
            *([f"--memory-share {answer.enough_share:.2f}"] if answer.enough_share is not None else []),
            *([f"--gpus {answer.enough_gpus}"] if answer.enough_gpus is not None else []),
        ]
        return f"{refusal}; try {' or '.join(ways)}" if ways else refusal
    if held.verdict is Verdict.CROWDED:
        return f"crowded: the cache has room for {room} of {load.streams} streams; others wait"
    return f"fits: the cache has room for {room} streams"


def _tokens(question: Question, answer: Forecast) -> Iterator[str]:
    measured = answer.evidence is Evidence.MEASURED
    yield f"One stream*, {'formula; speedup measured' if measured else answer.evidence}"
    rows = [("K", "tokens per step", "speedup", "pays from acceptance")]
    for row in answer.tokens:
        even = "-" if row.even_acceptance is None else f"{row.even_acceptance:.2f}"
        rows.append((str(row.k), f"{row.tokens:.2f}", f"{row.speedup:.2f}", even))
    yield from _table(rows)
    if question.acceptance is None:
        rates = " ".join(f"{share:.2f}" for share in answer.acceptance)
        yield f"  acceptance by position {rates}; tokens = 1 + a1 + a1 a2 + ..."
    else:
        yield f"  acceptance a = {question.acceptance:.2f}; tokens = (1 - a^(K+1)) / (1 - a)"
    if answer.thumb is not None:
        yield f"  rule of thumb for K={answer.proposal.ceiling}: speedup {answer.thumb:.2f}"
    yield f"  {_paying(answer.paying, answer.largest_batch)}"


def _paying(batches: tuple[int, int] | None, most: int) -> str:
    if batches is None:
        return f"no K pays at 1 to {most} streams"
    first, last = batches
    end = ", the largest number that was tried" if last == most else ""
    span = f"up to {last}" if first == 1 else f"from {first} to {last}"
    return f"some K pays {span} streams{end}"


def _speeds(question: Question, answer: Forecast) -> Iterator[str]:
    yield f"One replica*, tokens per second without a drafter and with one, {answer.evidence}"
    priced = question.price_per_hour is not None
    head = ("streams", "without", "K", "tok/s", "speedup")
    money = ("$ without", "$ with")
    rows: list[tuple[str, ...]] = [(*head, *money) if priced else head]
    rows += [_row(row) for row in answer.rows]
    yield from _table(rows)
    yield from _wrapped(f"  {_of_table(question, answer)}", "  ")
    if priced:
        yield f"  $: per million output tokens at ${question.price_per_hour:.2f} per GPU-hour"
    else:
        yield "  --price-per-hour adds what a million tokens cost"


def _of_table(question: Question, answer: Forecast) -> str:
    """Where the K of the rows comes from, and why a faster one is not among them."""
    whose = "that of the file" if question.fixed is not None else "that of the manifest below"
    faster = [row for row in answer.rows if row.with_best > _CLEARLY * row.with_table]
    if not faster:
        return f"K: {whose}"
    row = max(faster, key=lambda row: row.with_best / row.with_table)
    gain = row.with_best / row.without
    why = "" if question.fixed is not None else f": {_why_not(answer, row)}"
    return (
        f"K: {whose}. At {row.streams} streams it has K={row.k}; K={row.best} would give {gain:.2f}{why}. "
        "The tuner measures which is right"
    )


def _why_not(answer: Forecast, row: Expectation) -> str:
    """The source of the row of the schedule for this number of streams."""
    edges = [edge for edge in (8, 32) if row.streams <= edge]
    where = f"up to {edges[0]}" if edges else "above 32"
    reasons = (s.where for s in answer.proposal.sources if s.what.endswith(where))
    return next(reasons, "rule of thumb")


def _row(row: Expectation) -> tuple[str, ...]:
    cells = (
        str(row.streams),
        f"{row.without:.0f}",
        str(row.k),
        f"{row.with_table:.0f}",
        f"{row.speedup:.2f}",
    )
    if row.dollars_without is None or row.dollars_with is None:
        return cells
    return (*cells, f"{row.dollars_without:.2f}", f"{row.dollars_with:.2f}")


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def json_of(
    question: Question,
    answer: Forecast,
    manifest: Mapping[str, JsonValue] | None,
    drafters: Sequence[KnownDrafter],
) -> dict[str, object]:
    """The same for programs, in bytes, tokens per second and dollars."""
    held = answer.memory
    return {
        "model": question.target.name,
        "parameters": question.target.parameters,
        "weights": _precision(question),
        "method": question.drafter.method,
        "drafter": question.drafter.name,
        "gpu": question.gpu.name,
        "gpus": question.spread.gpus,
        "task": question.task,
        "memory": {
            "verdict": held.verdict,
            "memory_share": question.memory_share,
            "enough_share": answer.enough_share,
            "enough_gpus": answer.enough_gpus,
            "not_known": [
                *held.unknown,
                *([f"the drafter: {held.drafter_unknown}"] if held.drafter_unknown else []),
            ],
            "weights_bytes": held.weights,
            "drafter_bytes": held.drafter,
            "cache_bytes": held.cache,
            "graphs_bytes": held.graphs,
            "runtime_bytes": held.runtime,
            "needed_bytes": held.needed,
            "available_bytes": held.available,
            "total_bytes_of_all_gpus": held.total,
            "streams_with_room": held.streams_with_room,
            "evidence": Evidence.FORMULA,
        },
        "acceptance": answer.acceptance,
        "one_stream": [asdict(row) for row in answer.tokens],
        "rule_of_thumb": answer.thumb,
        "paying_batches": answer.paying,
        "speeds": [{**asdict(row), "speedup": row.speedup} for row in answer.rows],
        "evidence": answer.evidence,
        "no_speeds": answer.no_speeds,
        "candidates": answer.proposal.candidates,
        "schedule": answer.proposal.schedule.to_wire(),
        "sources": [asdict(source) for source in (*answer.proposal.sources, *answer.sources)],
        "known_drafters": [asdict(each) | {"read": each.read.isoformat()} for each in drafters],
        "warnings": answer.warnings,
        "manifest": manifest,
    }
