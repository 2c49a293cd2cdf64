"""Launches of which vLLM knows a defect, and what the operator says to them."""

from __future__ import annotations

from typing import Any

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.runtimes import runtime_of
from tests.unit.plan.factories import CACHE, a_model, a_plan, with_weights

HEAD = {"drafter": {"uri": "hf://org/drafter"}}


def a_launch(
    method: str = "mtp",
    *,
    version: str = "0.33.0",
    uri: str = "hf://org/target",
    args: dict[str, Any] | None = None,
    target: dict[str, Any] | None = None,
    drafter: dict[str, Any] | None = None,
    speculation: dict[str, Any] | None = None,
    **spec: Any,
) -> SpeculativeModel:
    """target, drafter: what their config.json say, where they were downloaded."""
    engine = {"version": version, "image": "engine:1", "args": args or {}, **spec.pop("engine", {})}
    weights = HEAD if method in ("eagle3", "draft_model", "dflash") else {}
    cache: dict[str, Any] = {} if target is None and drafter is None else {"cache": CACHE}
    model = a_model(
        uri=uri, method=method, speculation={**weights, **(speculation or {})}, engine=engine, **cache, **spec
    )
    return with_weights(model, target or {}, drafter or {}) if cache else model


def refused(model: SpeculativeModel) -> str | None:
    problems = a_plan(model).problems
    assert all(reason is DegradedReason.UNSUPPORTED for reason, _ in problems)
    return problems[0][1] if problems else None


def advised(model: SpeculativeModel) -> str:
    """Of known defects. `tests/unit/plan/test_model_runner.py` has the advice about runners."""
    texts = runtime_of(model.spec).advice(model.spec, model.status.weights)
    return " | ".join(text for text in texts if text.startswith("vLLM "))
