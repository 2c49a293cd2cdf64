"""The alerts of the chart, asked of the cluster's real Prometheus: their expressions, without their `for`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api_server import read
from tests.cluster.kubectl import Object, operator_namespace, wait_for
from tests.cluster.models import Manifest, simulation

PROMETHEUS = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/query"
ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "charts" / "outrider" / "files" / "alerts.yaml"
ENGINES = ROOT / "engine_image" / "testing" / "twin" / "outrider_twin" / "engines"
IN_THE_FILE = "outrider-system"

BROKEN = "broken"
"""A class of text: of a drafter whose drafts are nearly all wrong."""

Labels = dict[str, str]


def ask(expression: str) -> list[dict[str, Any]]:
    """The series that Prometheus answers with at this moment."""
    answer = json.loads(read(PROMETHEUS, query=expression))
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def alerts() -> dict[str, str]:
    """Expressions by the name of the alert, as the chart writes them for the operator of the models."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return {
        rule["alert"]: rule["expr"].replace(f'"{IN_THE_FILE}"', f'"{operator_namespace()}"')
        for rule in group["rules"]
    }


def held(alert: str, **labels: str) -> list[Labels]:
    """What the alert's expression holds for at this moment, of all that has these labels."""
    found = [series["metric"] for series in ask(alerts()[alert])]
    return [each for each in found if labels.items() <= each.items()]


def wait_until_held(alert: str, *wanted: Labels, seconds: float, **labels: str) -> None:
    """Of all that has these labels, the expression holds for these series and no others."""

    def look() -> Object:
        return {"status": held(alert, **labels)}

    wait_for(
        f"{alert} holds for {list(wanted)}",
        look,
        lambda seen: seen == {"status": list(wanted)},
        seconds=seconds,
    )


def knowing_broken_text(manifest: Manifest) -> Manifest:
    """The same stand-in, which answers requests that ask for it with `BROKEN` text."""
    setting = simulation(manifest)
    said = json.loads(setting["value"])
    known = json.loads((ENGINES / f"{said['engine']}.json").read_text())
    texts = dict.fromkeys(known["survival"], 1)
    known |= {"name": said["engine"], "survival": known["survival"] | {BROKEN: [0.02, 0.0]}}
    setting["value"] = json.dumps(said | {"engine": known, "texts": texts})
    return manifest
