"""What a PromQL expression asks for, without a parser: promtool says whether it is one."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from outrider.runtimes.vllm import metrics as names
from outrider_engine.control.state import Measurement, unmeasured
from outrider_engine.counting.adapters import AdapterSums
from outrider_engine.http import exposition
from tests.unit.controller.full_metrics import full_metrics, series_names
from tests.unit.telemetry.factories import cell_sums

CACHE = Path(os.environ.get("OUTRIDER_CACHE", Path.home() / ".cache" / "outrider"))
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=CACHE / "bin")

_KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset"})
_GROUPING = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"
_NAME = re.compile(r"(?<![\w:.])[a-zA-Z_:][\w:]*")


def metric_names(expression: str) -> frozenset[str]:
    """Names of the metrics that are selected."""
    text = re.sub(r'"[^"]*"', "", expression)
    for aside in (r"\{[^}]*\}", r"\[[^\]]*\]", _GROUPING):
        text = re.sub(aside, "", text)
    found = ((match[0], text[match.end() :].lstrip()) for match in _NAME.finditer(text))
    return frozenset(name for name, rest in found if name not in _KEYWORDS and not rest.startswith("("))


def matchers(expression: str) -> list[dict[str, str]]:
    """Label matchers of each selector that has some; those by `=` only."""
    inside = re.findall(r"\{([^}]*)\}", expression)
    return [dict(re.findall(r'(\w+)="([^"]*)"', each)) for each in inside]


def existing_metrics() -> frozenset[str]:
    """Those that the operator and the plugin write, and those of vLLM that the operator reads."""
    return series_names(full_metrics()) | _plugin_names() | frozenset(names.DIALECT.of_engine) | {"up"}


def _plugin_names() -> frozenset[str]:
    cells: Any = [cell_sums(trimmed=1, limited=1)]
    measurement: Measurement = {
        **unmeasured("not asked"),
        "cells": cells,
        "requestLimits": {"Applied": 1},
        "requestsByRule": {"short": 1},
        "adapters": [AdapterSums(adapter="legal", drafts=1, draftTokens=3, acceptedTokens=2)],
    }
    text = exposition.render([measurement], model_name="tiny").decode()
    shown = re.findall(r"^(outrider:\w+)\{", text, re.MULTILINE)
    # An engine with a schedule shows K, and one whose fast loop runs shows what that did.
    loop = ("steps", "step_seconds", "changes")
    return (
        frozenset(shown)
        | {"outrider:num_speculative_tokens"}
        | {f"outrider:fast_loop_{x}_total" for x in loop}
    )
