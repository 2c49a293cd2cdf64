"""The picture of README.md: three phases of the demo, out of its record.

``python docs/.site/demo_bars.py --write`` writes it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from outrider.pictures.charts import NARROW, Bar, bars_chart, standalone

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "demo-bars.svg"
RECORD = max((ROOT / "docs" / "benchmarks").glob("*-demo.json"))
PHASES = ("code, 1 stream", "code and prose by turns of 4 s, 8 streams", "prose, 32 streams")
"""Three of the nine: one that a large K suits, one that needs another K at each turn, one that drafts slow
down."""
WORDS = "Tokens per second of three phases of the demo, with K=0, with K=5 and with Outrider"
_HEADING, _GAP = 22, 10
"""Pixels above the bars of a phase, and below them."""


def rates() -> dict[str, dict[str, float]]:
    """Tokens per second by phase and arm, of all phases."""
    table = json.loads(RECORD.read_text(encoding="utf-8"))["tables"][1]
    arms = table["columns"][1:]
    return {row[0]: dict(zip(arms, map(float, row[1:]), strict=True)) for row in table["rows"]}


def picture() -> str:
    """The bars of each phase below its name, as wide as a phone."""
    parts, top = [f'<text x="4" y="15" font-weight="600" fill="currentColor">{_TITLE}</text>'], _HEADING
    found = rates()
    for phase in PHASES:
        bars = [Bar(arm, rate, rate, rate, f"{rate:.0f}") for arm, rate in found[phase].items()]
        chart = bars_chart(bars, alt=phase, width=NARROW)
        height = int(re.findall(r'viewBox="0 0 \d+ (\d+)"', chart)[0])
        parts.append(f'<text x="4" y="{top + 15}" fill="currentColor">{phase}</text>')
        placed = f'<svg y="{top + _HEADING}" width="{NARROW}" height="{height}" '
        parts.append(chart.replace("<svg ", placed, 1))
        top += _HEADING + height + _GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {NARROW} {top}" role="img" '
    style = 'style="font:13px system-ui,sans-serif;max-width:100%">'
    return standalone(f"{head}{style}<title>{WORDS}</title>{''.join(parts)}</svg>")


_TITLE = "Tokens per second, real vLLM on a CPU"

if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("nothing to do; pass --write")
    PICTURE.write_text(picture(), encoding="utf-8")
