"""The workflows of the repository and their steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
WORKFLOWS: dict[str, dict[str, Any]] = {
    path.stem: yaml.load(path.read_text(), yaml.CSafeLoader) for path in FILES
}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]


def steps(workflow: str, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = WORKFLOWS[workflow]["jobs"][job].get("steps", [])
    return found
