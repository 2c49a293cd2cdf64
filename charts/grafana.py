"""Panels in Grafana's JSON form, independent of Outrider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24
_HEIGHT = 8


@dataclass(frozen=True, slots=True)
class Query:
    """One line of a panel. legend: Grafana's legend; an empty one shows the labels of the series."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. width: in 24ths of the page. unit: a unit of Grafana."""

    title: str
    description: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    stacked: bool = False

    @property
    def instant(self) -> bool:
        """Whether the panel shows the present value, and not its history."""
        return self.kind in ("stat", "table")


@dataclass(frozen=True, slots=True)
class Row:
    """The panels that answer one question."""

    question: str
    panels: tuple[Panel, ...]


def stat(title: str, description: str, query: Query) -> Panel:
    """A narrow panel with one number per series."""
    return Panel(title, description, (query,), kind="stat", width=4)


def variable(name: str, label: str, query: str) -> dict[str, object]:
    """A variable of the dashboard: a choice among the values of a query."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def placed(rows: Sequence[Row]) -> Iterator[dict[str, object]]:
    """The panels with their positions: rows below each other, panels from left to right."""
    ids, y = count(1), 0
    for row in rows:
        place = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
        yield {"id": next(ids), "type": "row", "title": row.question, "gridPos": place, "panels": []}
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + _HEIGHT
            place = {"x": x, "y": y, "w": panel.width, "h": _HEIGHT}
            yield {"id": next(ids), "gridPos": place, **_panel(panel)}
            x += panel.width
        y += _HEIGHT


def _panel(panel: Panel) -> dict[str, object]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "targets": [_target(query, panel, "ABCDEFGH"[i]) for i, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        **({"transformations": [_TABLE]} if panel.kind == "table" else {}),
    }


_TABLE = {"id": "organize", "options": {"excludeByName": {"Time": True, "Value": True}}}


def _target(query: Query, panel: Panel, name: str) -> dict[str, object]:
    return {
        "refId": name,
        "datasource": _DATASOURCE,
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "instant": panel.instant,
        "range": not panel.instant,
        **({"format": "table"} if panel.kind == "table" else {}),
    }


def _defaults(panel: Panel) -> dict[str, object]:
    defaults: dict[str, object] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        style = {"drawStyle": "bars", "fillOpacity": 60, "stacking": {"mode": "normal", "group": "A"}}
        defaults["custom"] = style if panel.stacked else {"fillOpacity": 0, "lineWidth": 2}
    if panel.kind == "state-timeline":
        defaults["color"] = {"mode": "continuous-BlPu"}
    return defaults


def _options(panel: Panel) -> dict[str, object]:
    if panel.kind == "timeseries":
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name"}
    if panel.kind == "state-timeline":
        return {"mergeValues": True, "showValue": "always", "legend": {"showLegend": False}}
    return {}
