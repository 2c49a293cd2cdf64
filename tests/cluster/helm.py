"""Helm on the chart of this tree, as a user runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cluster.kubectl import operator_namespace

RELEASE = "outrider"
CHART = Path(__file__).resolve().parents[2] / "charts" / "outrider"
WAIT = ("--wait", "--timeout", "120s")


def helm(*words: str, where: str | None = None) -> str:
    """What it prints. where: the release's namespace, if it is another than that of the models' operator."""
    command = ["helm", *words, "-n", where or operator_namespace()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
    return done.stdout
