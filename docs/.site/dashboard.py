"""The picture of docs/guide/dashboard.md: panels of the Grafana dashboard, drawn by Outrider's own charts.

``python docs/.site/dashboard.py --record URL NAMESPACE MODEL MINUTES`` asks a Prometheus the queries of the
dashboard, and keeps the answers; ``--write`` draws them.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from charts.dashboard import ROWS
from charts.grafana import Panel as DashboardPanel
from outrider.pictures.charts import NARROW, Line, Panel, lines_chart, standalone

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "dashboard.svg"
RECORD = ROOT / "docs" / ".site" / "dashboard.json"
TITLES = ("Batch size", "K by batch size", "Goodput", "Speedup", "Acceptance")
"""Panels that a reader looks at first, from top to bottom."""
STEP_SECONDS = 5
MET = ("batch 2-3", "batch 4-6", "batch 13-24", "batch 25-48")
"""Bins of the recorded load, which had 2, 16, 40 and 4 streams."""
_TITLE = "Dashboard panels, not by Grafana"
_HEADING = 22


def panels() -> list[DashboardPanel]:
    """The panels in the order of the titles."""
    found = {panel.title: panel for row in ROWS for panel in row.panels}
    return [found[title] for title in TITLES]


def filled(expression: str, namespace: str, model: str) -> str:
    """A query as Grafana sends it for one model."""
    for name, value in (("__rate_interval", "30s"), ("model_namespace", namespace), ("model", model)):
        expression = re.sub(rf"\${name}\b", value, expression)
    return expression


def record(url: str, namespace: str, model: str, minutes: str) -> dict[str, Any]:
    """Series by title of the panel: name and points (seconds from the beginning, value)."""
    import httpx

    end = time.time()
    start = end - 60 * float(minutes)
    found: dict[str, list[dict[str, Any]]] = {}
    for panel in panels():
        for query in panel.queries:
            asked = {
                "query": filled(query.expression, namespace, model),
                "start": str(start),
                "end": str(end),
                "step": str(STEP_SECONDS),
            }
            answer = (
                httpx.get(f"{url}/api/v1/query_range", params=asked, timeout=30).raise_for_status().json()
            )
            for series in answer["data"]["result"]:
                points = [[round(at - start), round(float(value), 4)] for at, value in series["values"]]
                name = _name(query.legend, series["metric"])
                found.setdefault(panel.title, []).append({"name": name, "points": points})
    return {"date": time.strftime("%Y-%m-%d", time.gmtime(end)), "panels": found}


def _name(legend: str, labels: dict[str, str]) -> str:
    """The legend without the name of the model, which is the same everywhere."""
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)
    return re.sub(r"^\S+/\S+ ?", "", text)


def picture() -> str:
    """The panels below one another, as wide as a phone, without bins that the load did not meet."""
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))["panels"]
    parts, top = [f'<text x="4" y="15" font-weight="600" fill="currentColor">{_TITLE}</text>'], _HEADING
    for title in TITLES:
        lines = [
            Line(each["name"] or title, [(x, y) for x, y in each["points"]], steps=title.startswith("K"))
            for each in recorded[title]
            if not each["name"].startswith("batch ") or each["name"] in MET
        ]
        chart = lines_chart([Panel(title, lines)], axis="seconds", alt=title, width=NARROW)
        height = int(re.findall(r'viewBox="0 0 \d+ (\d+)"', chart)[0])
        parts.append(chart.replace("<svg ", f'<svg y="{top}" width="{NARROW}" height="{height}" ', 1))
        top += height + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {NARROW} {top}" role="img" '
    style = 'style="font:13px system-ui,sans-serif;max-width:100%">'
    return standalone(f"{head}{style}<title>{_TITLE}</title>{''.join(parts)}</svg>")


def main(arguments: list[str]) -> None:
    """Record or draw."""
    if arguments[:1] == ["--record"] and len(arguments) == 5:
        RECORD.write_text(json.dumps(record(*arguments[1:])) + "\n", encoding="utf-8")
    elif arguments == ["--write"]:
        PICTURE.write_text(picture(), encoding="utf-8")
    else:
        sys.exit("pass --write, or --record URL NAMESPACE MODEL MINUTES")


if __name__ == "__main__":
    main(sys.argv[1:])
