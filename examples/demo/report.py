"""What a person looks at: ``report.png``, and ``report.html`` with picture and figures in one file."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from examples.demo import picture
from examples.demo.result import Move, OwnPhase, PhaseResult, Result, Simulated, Throughput
from examples.kit.records import DecisionSample

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; color: #222 }
body { padding: 0 1rem }
img { width: 100%; height: auto }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top }
th:first-child, td:first-child, td.text { text-align: left }
.passed { color: #00664b } .failed { color: #b00020 }
.note { border-left: 4px solid #E69F00; padding-left: .8rem }
.simulated { background: #FFF3D6; border: 2px dashed #E69F00; padding: 0 1rem }
"""
PHASE_HEADINGS = (
    "phase",
    "Outrider, second half",
    "Outrider, whole phase",
    "K = 0 held (slices)",
    "largest K held (slices)",
    "K at start",
    "K at end",
    "acceptance",
)
SIMULATED_HEADINGS = (
    "phase",
    "Outrider, second half",
    "Outrider, whole phase",
    "K at start",
    "K at end",
    "acceptance",
)
MOVE_HEADINGS = ("seconds", "phase", "from", "to", "reason")
DECISION_HEADINGS = ("time", "from", "to", "reason", "in words")


def write(result: Result, folder: Path) -> list[Path]:
    """Write the picture and the page into `folder`; returns their paths."""
    image, page = folder / "report.png", folder / "report.html"
    picture.save(result, image)
    page.write_text(html(result, image.read_bytes()))
    return [image, page]


def html(result: Result, image: bytes) -> str:
    """The page, with the picture inside."""
    verdict = ("passed", "Passed.") if result.passed else ("failed", " ".join(result.failures))
    encoded = base64.b64encode(image).decode()
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Outrider demo</title><style>{STYLE}</style>
<h1>Outrider demo</h1>
<p class="{verdict[0]}"><strong>{escape(verdict[1])}</strong></p>
<p>{escape(_summary(result))}</p>
{_notes(result)}
<img alt="Throughput, concurrency, acceptance and K over time; arms compared per phase"
 src="data:image/png;base64,{encoded}">
<h2>Tokens per second, {escape(result.conditions.computed)}</h2>
{_table(PHASE_HEADINGS, map(_phase_cells, result.phases))}
<h2>Chosen changes of K at the load of their moment</h2>
{_table(MOVE_HEADINGS, map(_move_cells, result.moves))}
<h2>Decisions of the tuner</h2>
{_table(DECISION_HEADINGS, map(_decision_cells, result.decisions))}
{_simulated(result.simulated) if result.simulated else ""}
<h2>Measured on</h2>
{_table(("what", "value"), ((name.replace("_", " "), str(value)) for name, value in result.conditions))}
</html>
"""


def _summary(result: Result) -> str:
    requests, durations = result.requests, result.durations
    return (
        f"{requests.finished} requests finished, {requests.failed} failed, "
        f"{result.pod_restarts} pod restarts. "
        f"Ready after {durations.until_ready:.0f} s, driven for {durations.laps:.0f} s."
    )


def _notes(result: Result) -> str:
    return "\n".join(f'<p class="note">{escape(note)}</p>' for note in result.notes)


def _simulated(found: Simulated) -> str:
    """A part that looks different throughout."""
    late = "unknown" if found.late is None else f"{found.late:.2%}"
    return f"""<section class="simulated">
<h2>{escape(found.title)}</h2>
<p>One more lap with Outrider on: real vLLM, whose executor ({escape(found.image)}) sleeps the times of a
table and draws by chance which drafts are accepted. {found.requests.finished} requests finished,
{found.requests.failed} failed, {found.pod_restarts} pod restarts. Late by {late} of the table's time.</p>
<h3>Tokens per second, simulated</h3>
{_table(SIMULATED_HEADINGS, map(_own_cells, found.phases))}
<h3>Chosen changes of K, simulated engines</h3>
{_table(MOVE_HEADINGS, map(_move_cells, found.moves))}
<h3>Decisions of the tuner, simulated engines</h3>
{_table(DECISION_HEADINGS, map(_decision_cells, found.decisions))}
</section>"""


def _own_cells(phase: OwnPhase) -> tuple[str, ...]:
    return (
        phase.phase,
        number(phase.outrider_second_half),
        number(phase.outrider_whole_phase),
        number(phase.k_at_start),
        number(phase.k_at_end),
        number(phase.acceptance_rate, digits=2),
    )


def _phase_cells(phase: PhaseResult) -> tuple[str, ...]:
    return (
        phase.phase,
        number(phase.outrider_second_half),
        number(phase.outrider_whole_phase),
        _with_slices(phase.static_zero),
        _with_slices(phase.static_largest),
        number(phase.k_at_start),
        number(phase.k_at_end),
        number(phase.acceptance_rate, digits=2),
    )


def _move_cells(move: Move) -> tuple[str, ...]:
    return (f"{move.seconds:.0f}", move.phase, str(move.from_k), str(move.to_k), move.reason)


def _decision_cells(decision: DecisionSample) -> tuple[str, ...]:
    time = datetime.fromtimestamp(decision.time, UTC).isoformat()
    return (time, decision.from_table, decision.to_table, decision.reason, decision.message)


def number(value: float | None, *, digits: int = 0) -> str:
    """A figure for a table cell; a dash where nothing was measured."""
    return "-" if value is None else f"{value:.{digits}f}"


def _with_slices(throughput: Throughput) -> str:
    return f"{number(throughput.mean)} ({', '.join(number(value) for value in throughput.slices)})"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "\n".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _cell(text: str) -> str:
    # Words read from the left, figures from the right.
    css = ' class="text"' if len(text) > 24 else ""
    return f"<td{css}>{escape(text)}</td>"
