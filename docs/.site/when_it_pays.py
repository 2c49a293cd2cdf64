"""The picture of docs/guide/when-it-pays.md, out of the formula of `outrider plan` and a measured table.

``python docs/.site/when_it_pays.py --write`` writes it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from outrider.performance.tables_file import read_tables, select
from outrider.pictures.charts import NARROW, Line, Panel, lines_chart, standalone
from outrider.sizing.drafters import eagle_head
from outrider.sizing.gpus import gpu_named
from outrider.sizing.models import known_model
from outrider.sizing.speed import FormulaSpeeds, MeasuredSpeeds, Speeds, speedup
from outrider.sizing.spread import Spread
from outrider_protocol.methods import Method

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "when-it-pays.svg"
MODEL, GPU, CONTEXT = "Llama-3.1-8B-Instruct", "H100", 1000.0
GOOD, POOR = 0.8, 0.5
KS = (1, 2, 3, 5)
STREAMS = range(1, 33)
MEASURED, MEASURED_KS = "a40_7b", (1, 2, 3)


def formula(acceptance: float) -> FormulaSpeeds:
    """Speeds of the model on the GPU, with an EAGLE-3 head of this acceptance at every position."""
    known, gpu = known_model(MODEL), gpu_named(GPU)
    assert known is not None
    assert gpu is not None
    head = eagle_head(Method.EAGLE3, known.architecture)
    return FormulaSpeeds(known.architecture, head, gpu, Spread(), CONTEXT, (acceptance,))


def measured() -> MeasuredSpeeds:
    """An A40, where arithmetic is the limit early."""
    (table,) = select(read_tables(ROOT / "examples" / "tables" / "visible_tables.json"), MEASURED)
    return MeasuredSpeeds(table)


def picture() -> str:
    """Speedup over a launch without a drafter, by streams: one engine as measured, two texts by formula."""
    panels = [
        _panel("A40, 7B, measured", measured(), MEASURED_KS, 32),
        _panel(f"H100, 8B, by formula: {GOOD:.0%} of draft tokens accepted", formula(GOOD), KS, 32),
        _panel(f"the same, {POOR:.0%} accepted", formula(POOR), KS, 32),
    ]
    told = "Speedup over no drafter falls as streams rise, and with text that is hard to draft"
    return standalone(lines_chart(panels, axis="requests at once", alt=told, width=NARROW))


def _panel(title: str, speeds: Speeds, ks: tuple[int, ...], most: int) -> Panel:
    batches = [batch for batch in STREAMS if batch <= most]
    lines = [Line(f"K={k}", [(float(b), speedup(speeds, b, k)) for b in batches]) for k in ks]
    even = Line("no drafter", [(float(STREAMS[0]), 1.0), (float(STREAMS[-1]), 1.0)], dashed=True)
    return Panel(title, [*lines, even])


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("nothing to do; pass --write")
    PICTURE.write_text(picture(), encoding="utf-8")
