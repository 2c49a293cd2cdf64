"""What a person looks at: ``report.html``, one page that loads nothing, and ``report.png`` beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from examples.demo.panels import TURNS_WORDS, USED_K, OwnTime
from examples.demo.phases import Arm
from examples.demo.picture import save
from examples.demo.result import ArmStretch, Move, OwnPhase, Result, Simulated, StepsSample
from examples.demo.spread import BLOCK_SECONDS, Compared, OwnSpread, compared, overall, own_spreads, unknown
from examples.kit.records import DecisionSample, StatusSample
from outrider.bench.result import percent, with_interval
from outrider.bench.verdict import Interval
from outrider.pictures.charts import Bar, Line, Panel, bars_chart, lines_chart
from outrider.pictures.page import document, picture, table

PASSED, FAILED = "#009e73", "#d55e00"
OWN_HEADINGS = ("phase", "after learning", "with learning", "K of the schedule", "mean K", "acceptance")
STEPS_HEADINGS = ("phase", "K chosen by the engine")
MOVE_HEADINGS = ("seconds", "phase", "from", "to", "reason")
WORDS = "in words"
TOO_FEW = "too few"
_ARMS = (Arm.OUTRIDER, Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS)
DECISION_HEADINGS = ("time", "from", "to", "reason", WORDS)


def write(result: Result, folder: Path) -> list[Path]:
    """Write the picture and the page into `folder`; returns their paths."""
    image, page = folder / "report.png", folder / "report.html"
    save(result, image)
    page.write_text(html(result), encoding="utf-8")
    return [image, page]


def html(result: Result) -> str:
    """The page."""
    return document("Outrider demo", "\n".join(_parts(result)))


def _parts(result: Result) -> Iterator[str]:
    found, largest = compared(result), _largest(result)
    yield "<h1>Outrider demo: what speculation bought</h1>"
    yield f'<p class="faint">{escape(_summary(result))} Brackets and whiskers are 95 % intervals.</p>'
    yield from (f'<p class="simulated">{escape(note)}</p>' for note in result.notes)
    mark, verdict = (PASSED, "Passed.") if result.passed else (FAILED, " ".join(result.failures))
    yield f'<p class="verdict" style="--mark:{mark}">{escape(verdict)} {escape(headline(result))}</p>'
    yield f"<h2>Tokens per second, {escape(result.conditions.computed)}</h2>"
    yield table(("phase", *_names(largest), "over K=0 held", f"over {largest}"), map(_compared_cells, found))
    yield "<h2>Phase by phase</h2>"
    for phase in found:
        yield _bars(phase, largest)
    yield "<h2>What the tuner did</h2>"
    own = [stretch for stretch in result.stretches if stretch.arm is Arm.OUTRIDER]
    acceptance = [(one.time, one.rate) for one in result.acceptance]
    yield _over_time(own, result.statuses, result.k_in_use, acceptance)
    yield _own_table(result.phases, own_spreads(result.stretches, result.acceptance))
    yield f"<h2>K of the engine's steps, {escape(result.conditions.computed)}, after learning</h2>"
    yield _steps_table(result.phases)
    yield "<h2>Changes of the schedule's K, at the load of their moment</h2>"
    yield table(MOVE_HEADINGS, map(_move_cells, result.moves))
    yield "<h2>Its decisions, and why</h2>"
    yield table(DECISION_HEADINGS, map(_decision_cells, result.decisions), words=WORDS)
    if result.simulated is not None:
        yield _simulated(result.simulated)
    yield "<h2>How to read it</h2>"
    yield from _notes(largest)
    yield "<h2>Measured on</h2>"
    rows = ((name.replace("_", " "), str(value)) for name, value in result.conditions)
    yield table(("what", "value"), rows, words="value")


def _summary(result: Result) -> str:
    requests, durations = result.requests, result.durations
    started = datetime.fromisoformat(result.conditions.started).astimezone(UTC)
    return (
        f"{started:%Y-%m-%d %H:%M} UTC. {requests.finished} requests finished, {requests.failed} failed, "
        f"{result.pod_restarts} pod restarts. "
        f"Ready after {durations.until_ready:.0f} s, driven for {durations.driven:.0f} s."
    )


def headline(result: Result) -> str:
    """What speculation bought over all phases, or why there is no figure of it."""
    found = compared(result)
    held = ((Arm.NO_DRAFTS, "K=0 held"), (Arm.LONGEST_DRAFTS, _largest(result)))
    said = (_gained(found, arm, name) for arm, name in held)
    return f"Outrider over all phases, in the geometric mean: {'; '.join(said)}."


def _gained(found: Sequence[Compared], arm: Arm, name: str) -> str:
    gain = overall(found, arm)
    if gain is not None:
        return f"{percent(gain)} over {name}"
    return f"no figure over {name}, too little was seen for an interval in {', '.join(unknown(found, arm))}"


def _largest(result: Result) -> str:
    return f"K={result.conditions.largest_k} held"


def _names(largest: str) -> tuple[str, ...]:
    return ("Outrider", "K=0 held", largest)


def _compared_cells(phase: Compared) -> tuple[str, ...]:
    rates = (_interval(phase.rate(arm)) for arm in _ARMS)
    gains = (phase.gain(arm) for arm in (Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS))
    return (phase.phase, *rates, *(TOO_FEW if gain is None else percent(gain) for gain in gains))


def _interval(found: Interval | None) -> str:
    return TOO_FEW if found is None else with_interval(found, 0)


def _bars(phase: Compared, largest: str) -> str:
    known = [(name, phase.rate(arm)) for name, arm in zip(_names(largest), _ARMS, strict=True)]
    bars = [
        Bar(name, each.value, each.low, each.high, with_interval(each, 0))
        for name, each in known
        if each is not None
    ]
    if not bars:
        return ""
    what = f"tokens per second, {phase.phase}"
    drawn = picture(lambda width: bars_chart(bars, alt=what, width=width))
    return f"<h3>{escape(phase.phase)}</h3>{drawn}"


def _over_time(
    stretches: Sequence[ArmStretch],
    statuses: Sequence[StatusSample],
    in_use: Iterable[StepsSample],
    acceptance: Iterable[tuple[float, float]],
    *,
    among: str = "",
) -> str:
    """among: said in every title, where figures are not measured ones."""
    own = OwnTime(stretches)
    panels = [
        Panel(f"tokens per second{among}", [Line("Outrider", list(zip(own.times, own.rates, strict=True)))]),
        Panel(
            f"streams{among}", [Line("Outrider", list(zip(own.times, own.streams, strict=True)), steps=True)]
        ),
        Panel(
            f"K, {USED_K}{among}",
            [
                Line("Outrider", own.placed((one.time, one.k) for one in in_use)),
                Line("schedule", own.depths(statuses), dashed=True, steps=True),
            ],
        ),
        Panel(
            f"ratio of accepted to drafted tokens{among}",
            [Line("Outrider", own.placed(acceptance))],
        ),
    ]
    known = [replace(panel, lines=[line for line in panel.lines if line.points]) for panel in panels]
    drawn = [panel for panel in known if panel.lines]
    what = f"Throughput, load, K and acceptance over time{among}"
    return picture(lambda width: lines_chart(drawn, axis="seconds of Outrider's own", alt=what, width=width))


def _simulated(found: Simulated) -> str:
    """A part that looks different throughout."""
    late = "unknown" if found.late is None else f"{found.late:.2%}"
    acceptance = [(one.time, one.rate) for one in found.acceptance]
    return f"""<section class="simulated">
<h2>{escape(found.title)}</h2>
<p>One more lap with Outrider on: real vLLM, whose executor ({escape(found.image)}) sleeps the times of a
table and draws by chance which drafts are accepted. {found.requests.finished} requests finished,
{found.requests.failed} failed, {found.pod_restarts} pod restarts. Late by {late} of the table's time.</p>
{_over_time(found.stretches, found.statuses, found.k_in_use, acceptance, among=", simulated")}
<h3>Tokens per second, simulated</h3>
{_own_table(found.phases, own_spreads(found.stretches, found.acceptance))}
<h3>K of the steps of simulated engines, after learning</h3>
{_steps_table(found.phases)}
<h3>Changes of the schedule's K, simulated engines</h3>
{table(MOVE_HEADINGS, map(_move_cells, found.moves))}
<h3>Decisions of the tuner, simulated engines</h3>
{table(DECISION_HEADINGS, map(_decision_cells, found.decisions), words=WORDS)}
</section>"""


def _notes(largest: str) -> Iterator[str]:
    yield (
        f"<p>{TURNS_WORDS}. Each interval of this phase has both texts for the same time. The engine may "
        "choose K at each step, within what the operator allows. So the K of the schedule is in use only "
        "where the engine does not choose.</p>"
    )
    yield (
        "<p>In each phase Outrider first learns its load, which no comparison has; the table under the "
        "pictures has its rates without the learning and with it. Then all arms are compared in mirrored "
        f"rounds: a slice of K=0 held, of {escape(largest)}, of Outrider, and the same back, on the same "
        "pods and with the same drafter loaded: K=0 is no launch without a drafter. The first seconds of a "
        "slice, in which its streams get under way, do not count. While K is held an override rules the "
        "table, under which the tuner learns nothing.</p>"
        "<p>Intervals are Student's, within this one run. Those of a gain are over the halves of the rounds: "
        "each slice of a held K against the half of Outrider's slice on its side. A machine that grows "
        "steadily faster or slower lifts one half, lowers the other and so widens the interval without "
        f"moving the gain. Those of rates and of acceptance are over blocks of {BLOCK_SECONDS:g} s, or of a "
        "whole period where texts take turns; those "
        "with learning take ramps and trials for noise as well. None holds another run. The one over all "
        "phases is of these phases, and says nothing of other loads. Where fewer than two blocks, or a "
        f"slice without tokens, were seen there is no figure, and the cell says {TOO_FEW}.</p>"
    )


def _own_table(phases: Iterable[OwnPhase], spreads: Mapping[str, OwnSpread]) -> str:
    return table(OWN_HEADINGS, (_own_cells(phase, spreads[phase.phase]) for phase in phases))


def _own_cells(phase: OwnPhase, spread: OwnSpread) -> tuple[str, ...]:
    return (
        phase.phase,
        measured(spread.settled, phase.outrider_settled),
        measured(spread.whole_phase, phase.outrider_whole_phase),
        f"{number(phase.k_at_start)} to {number(phase.k_at_end)}",
        number(phase.k_in_use, digits=1),
        measured(spread.acceptance, phase.acceptance_rate, digits=2),
    )


def _move_cells(move: Move) -> tuple[str, ...]:
    return (f"{move.seconds:.0f}", move.phase, str(move.from_k), str(move.to_k), move.reason)


def _decision_cells(decision: DecisionSample) -> tuple[str, ...]:
    time = f"{datetime.fromtimestamp(decision.time, UTC):%H:%M:%S} UTC"
    return (time, decision.from_table, decision.to_table, decision.reason, decision.message)


def number(value: float | None, *, digits: int = 0) -> str:
    """A K for a table cell; a dash where none was seen."""
    return "-" if value is None else f"{value:.{digits}f}"


def _steps_table(phases: Sequence[OwnPhase]) -> str:
    """Ratios of steps by K, and of those whose K the engine chose."""
    ks = sorted({k for phase in phases for k in phase.steps_by_k})
    return table((*STEPS_HEADINGS, *(f"K={k}" for k in ks)), (_steps_cells(phase, ks) for phase in phases))


def _steps_cells(phase: OwnPhase, ks: Iterable[int]) -> tuple[str, ...]:
    total = sum(phase.steps_by_k.values())
    ratios = ("-" if not total else f"{phase.steps_by_k.get(k, 0.0) / total:.0%}" for k in ks)
    own = phase.chosen_by_engine
    return (phase.phase, "-" if own is None else f"{own:.0%}", *ratios)


def measured(found: Interval | None, value: float | None, *, digits: int = 0) -> str:
    """An estimate for a table cell; a dash where nothing was measured, words where it was too little."""
    if found is not None:
        return with_interval(found, digits)
    return "-" if value is None else TOO_FEW
