"""The result of a bench as one page: figures, intervals, charts, and their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from outrider.bench.arms import AS_IT_IS, NO_DRAFTS, Arm
from outrider.bench.guidellm import Slice
from outrider.bench.result import WORDS, Result, Unread, dollars, percent, with_interval
from outrider.bench.verdict import MIN_ROUNDS, Interval, Verdict, against_best, gains, mean_amount, verdict
from outrider.pictures.charts import Bar, Line, Panel, bars_chart, lines_chart
from outrider.pictures.page import document, picture, table

_MARKS = {Verdict.PAYS: "#009e73", Verdict.COSTS: "#d55e00", Verdict.UNSURE: "#9aa4b0"}

Read = Callable[[Slice], float | None]


def page_of(result: Result, *, when: str) -> str:
    """The page as HTML. when: date and time of the end, as text."""
    setting = result.setting
    name = f"{setting.namespace}/{setting.name}"
    return document(f"{name}: what speculation buys", "\n".join(_parts(result, name, when)))


def _parts(result: Result, name: str, when: str) -> Iterator[str]:
    setting, found = result.setting, gains(result.speeds)
    yield f"<h1>What speculation gains: {escape(name)}</h1>"
    yield (
        f'<p class="faint">{escape(when)}. {setting.load}, {result.rounds} rounds of '
        f"{setting.seconds:g} s per arm, answers of up to {setting.max_tokens} tokens, by GuideLLM. "
        "Brackets and whiskers are 95 % intervals.</p>"
    )
    if setting.simulated is not None:
        yield (
            f'<p class="simulated"><b>Simulated.</b> The engines compute nothing and sleep the step times of '
            f"{escape(setting.simulated)}. This shows how the tuner works, not how fast a GPU is.</p>"
        )
    if result.ended is not None:
        yield (
            f'<p class="simulated"><b>Ended after {result.rounds} of {setting.rounds} rounds.</b> '
            f"{escape(result.ended)} The figures cover the complete rounds.</p>"
        )
    gain = found[AS_IT_IS]
    yield (
        f'<p class="verdict" style="--mark:{_MARKS[verdict(gain)]}">As it is: {WORDS[verdict(gain)]}: '
        f"<b>{percent(gain)}</b> {result.compared_by} over K=0.</p>"
    )
    yield f'<div class="cards">{"".join(_cards(result))}</div>'
    yield "<h2>Tokens per second</h2>"
    yield _bars(result, lambda each: each.tokens_per_second, "tokens/s")
    yield "<h2>Milliseconds between two tokens</h2>"
    yield _bars(result, lambda each: each.between_tokens_ms, "ms")
    yield "<h2>Milliseconds to the first token</h2>"
    yield _bars(result, lambda each: each.first_token_ms, "ms")
    if setting.price_per_hour is not None:
        yield "<h2>Dollars per million tokens</h2>"
        costs = dollars(result.rates, setting.price_per_hour)
        yield _drawn(costs, 2, "Dollars per million output tokens by arm")
    yield "<h2>Was the machine steady?</h2>"
    yield _rounds(result)
    yield "<h2>What the tuner did meanwhile</h2>"
    yield _decisions(result)
    yield "<h2>All figures</h2>"
    yield _table(result)
    yield "<h2>How to read it</h2>"
    yield from _notes(result)


def _cards(result: Result) -> Iterator[str]:
    rates, setting = result.rates, result.setting
    yield _card("tokens per second", mean_amount(rates[AS_IT_IS]), mean_amount(rates[NO_DRAFTS]), 0)
    waits = {arm: _mean(result.slices[arm], lambda each: each.between_tokens_ms) for arm in result.slices}
    with_drafts, without = waits[AS_IT_IS], waits[NO_DRAFTS]
    if with_drafts is not None and without is not None:
        yield _card("ms between two tokens", with_drafts, without, 1)
    if setting.price_per_hour is not None:
        costs = dollars(rates, setting.price_per_hour)
        yield _card("$ per million tokens", costs[AS_IT_IS], costs[NO_DRAFTS], 2)


def _card(what: str, found: Interval, without: Interval, digits: int) -> str:
    return (
        f'<div class="card"><span class="faint">{what}</span><b>{found.value:.{digits}f}</b>'
        f"[{found.low:.{digits}f}, {found.high:.{digits}f}]<br>"
        f'<span class="faint">K=0: {with_interval(without, digits)}</span></div>'
    )


def _bars(result: Result, read: Read, unit: str) -> str:
    found = {arm: _mean(slices, read) for arm, slices in result.slices.items()}
    known = {arm: each for arm, each in found.items() if each is not None}
    if not known:
        return f'<p class="faint">Not known: {_why_not(result, read)}.</p>'
    return _drawn(known, 1 if unit == "ms" else 0, f"{unit} by arm")


def _why_not(result: Result, read: Read) -> str:
    """The reason why no arm has an interval for a figure of finished answers."""
    slices = [each for found in result.slices.values() for each in found]
    if not any(each.finished for each in slices):
        return "no answer finished in a measurement. Set longer --seconds or shorter --max-tokens"
    if all(read(each) is None for each in slices):
        return "answers were finished, but the program that sent the load reported no milliseconds"
    return f"no arm has it in {MIN_ROUNDS} measurements, which an interval needs"


def _drawn(found: Mapping[Arm, Interval], digits: int, label: str) -> str:
    bars = [
        Bar(arm.name, each.value, each.low, each.high, with_interval(each, digits))
        for arm, each in found.items()
    ]
    return picture(lambda width: bars_chart(bars, alt=label, width=width))


def _mean(slices: Sequence[Slice], read: Read) -> Interval | None:
    values = [value for value in map(read, slices) if value is not None]
    return mean_amount(values) if len(values) >= MIN_ROUNDS else None


def _rounds(result: Result) -> str:
    lines = [
        Line(arm.name, [(float(number), rate) for number, rate in enumerate(rates, 1)])
        for arm, rates in result.rates.items()
    ]
    panels = [Panel("tokens per second by round", lines)]
    return picture(lambda width: lines_chart(panels, axis="round", alt="Drift of all arms", width=width)) + (
        '<p class="faint">Arms of one round ran within minutes of one another, in mixed order. Lines that '
        "rise and fall together are drift, which the comparison takes out.</p>"
    )


def _table(result: Result) -> str:
    found, price = gains(result.speeds), result.setting.price_per_hour
    costs = None if price is None else dollars(result.rates, price)
    heads = ["arm", "tokens/s", "over K=0", "ms to first token", "ms between tokens", "requests", "failed"]
    rows = []
    for arm, slices in result.slices.items():
        gain = found.get(arm)
        cells = [
            arm.name,
            with_interval(mean_amount(result.rates[arm]), 0),
            "" if gain is None else with_interval(gain, 2),
            _cell(_mean(slices, lambda each: each.first_token_ms)),
            _cell(_mean(slices, lambda each: each.between_tokens_ms)),
            str(sum(each.finished for each in slices)),
            str(sum(each.failed for each in slices)),
        ]
        rows.append([*cells, *([] if costs is None else [with_interval(costs[arm], 2)])])
    return table([*heads, *([] if costs is None else ["$ per million"])], rows)


def _decisions(result: Result) -> str:
    if isinstance(result.decisions, Unread):
        return f"<p>Not known: {escape(result.decisions.why)}</p>"
    if not result.decisions:
        return (
            '<p class="faint">The schedule did not change. The tuner decides nothing during an override.</p>'
        )
    items = "".join(
        f"<li>{each.time:%H:%M:%S} UTC: {escape(each.from_)} \u2192 {escape(each.to)}<br>"
        f'<span class="faint">{escape(each.reason)}: {escape(each.message)}</span></li>'
        for each in reversed(result.decisions)
    )
    return f'<ul>{items}</ul><p class="faint">Status keeps the last five decisions.</p>'


def _cell(found: Interval | None) -> str:
    return "-" if found is None else with_interval(found, 1)


def _notes(result: Result) -> Iterator[str]:
    best = against_best(result.speeds)
    if best is not None:
        arm, compared = best
        yield (
            f"<p>Against {escape(arm.name)}, the best single K: {percent(compared)}. The best of "
            "several is also the luckiest, so this comparison favours the single K.</p>"
        )
    yield (
        "<p>K=0 keeps the drafter loaded. A launch without a drafter may be some percent faster.</p>"
        "<p>Intervals are Student's, over rounds; gains are ratios within a round. They cover the noise of "
        "this run, and not other prompts, other loads or another day.</p>"
    )
    if result.setting.rate is not None:
        yield (
            "<p>Arrivals decide the tokens per second of all answers. So gains compare one answer: the "
            "inverse of the pause between two tokens.</p>"
        )
    if result.setting.price_per_hour is not None:
        yield (
            f"<p>The price is ${result.setting.price_per_hour:g} an hour, divided by the tokens of a "
            "replica that is always as busy as here. An idle GPU costs the same.</p>"
        )
    if result.failed:
        yield f"<p>{result.failed} requests failed; the figures cover the others.</p>"
