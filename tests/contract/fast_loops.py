"""Cost models for engines under test, and what their fast loop says of itself."""

from __future__ import annotations

from collections.abc import Sequence

from outrider_protocol.cost_model import MAX_ERROR, CostModel, launch_revision
from outrider_protocol.schedule import Schedule
from tests.contract.engine import MAX_NUM_SEQS, Engine
from tests.contract.factories import a_constant, a_push

STEP_SECONDS = 0.01
CHEAP, DEAR = 1e-6, STEP_SECONDS
"""Seconds of one draft token that always pays, or never: it takes as long as a step, and gives less."""


def a_cost_model(
    engine: Engine, candidates: Sequence[int], *, per_draft: float, max_k: int | None = None
) -> CostModel:
    """Made-up step times, so that one K is the best, with the maximum errors: no step agrees with them."""
    state = engine.first_state
    method, largest = str(state["method"]), int(str(state["numSpeculativeTokens"]))
    return CostModel(
        revision=launch_revision(method, MAX_NUM_SEQS, largest),
        candidates=tuple(candidates),
        batch_sizes=(1, MAX_NUM_SEQS),
        step_seconds=(tuple(STEP_SECONDS + per_draft * k for k in candidates),) * 2,
        errors=((MAX_ERROR,) * len(candidates),) * 2,
        context_tokens=0.0,
        context_slopes=(0.0,) * len(candidates),
        limits=Schedule.constant(max(candidates) if max_k is None else max_k),
    )


def push_cost_model(
    engine: Engine, term: int, epoch: int, model: CostModel, *, schedule_k: int = 0
) -> dict[str, object]:
    """Push it with a schedule of one K; the fast loop's part of the state after that."""
    body = a_push(term=term, epoch=epoch, schedule=a_constant(schedule_k)) | {"costModel": model.to_wire()}
    answer = engine.put(body)
    answer.raise_for_status()
    loop: dict[str, object] = answer.json()["fastLoop"]
    return loop


def fast_loop(engine: Engine) -> dict[str, object]:
    """The same, as it is now."""
    loop = engine.state()["fastLoop"]
    assert isinstance(loop, dict)
    return loop
