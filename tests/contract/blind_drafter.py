"""A plugin for vLLM, for tests: no drafter can read what it missed. See `helper_plugins`."""

from __future__ import annotations

from typing import Any

NAME = "blind_drafter"
FAULT = "the drafter is blind"


def register() -> None:
    """Replace the plugin's pass over missed tokens on the V1 runner by a fault."""
    from outrider_engine.vllm_adapter import drafter

    drafter.backfill_inputs = fails  # type: ignore[attr-defined]


def fails(*_: Any, **__: Any) -> Any:
    """As on a vLLM of another shape."""
    raise ValueError(FAULT)
