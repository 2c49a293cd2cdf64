"""Models that SGLang serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.api.resource import SpeculativeModel
from tests.unit.plan.factories import a_model

HEAD = {"drafter": {"uri": "hf://org/head"}}
ROLLOUT = {"tuning": {"actuation": "Rollout"}}
OFF = {"tuning": {"mode": "Off"}}


def a_sglang_model(
    method: str = "eagle3",
    speculation: Mapping[str, object] = HEAD,
    engine: Mapping[str, object] | None = None,
    **spec: Any,
) -> SpeculativeModel:
    engine = {"runtime": "SGLang", "version": "0.5.23", **(engine or {})}
    return a_model(method=method, speculation=speculation, engine=engine, **spec)
