"""`fast-loop`: the fast loop of the engine, by an offline profile of step times that no tuner corrects."""

from __future__ import annotations

from statistics import mean

from outrider.tuning.estimate.step_time_profile import MapCell
from outrider.tuning.policy import Policy
from outrider_lab.rivals.profiled import OfflineProfile
from outrider_protocol.cost_model import CostModel, check
from outrider_protocol.schedule import Schedule


def profiled_model(profile: OfflineProfile, law: Policy) -> CostModel:
    """The cost model of an offline profile: its step times at its smallest context."""
    cells = [cell for cell in profile.step_times.cells if cell.k in law.candidates]
    contexts = sorted({cell.context or 0.0 for cell in cells})
    near = {(round(c.batch_size), c.k): c for c in cells if (c.context or 0.0) == contexts[0]}
    far = {(round(c.batch_size), c.k): c for c in cells if (c.context or 0.0) == contexts[-1]}
    batches, ks = sorted({batch for batch, _ in near}), sorted({k for _, k in near})
    return check(
        CostModel(
            revision="profile",
            candidates=tuple(ks),
            batch_sizes=tuple(batches),
            step_seconds=tuple(tuple(near[batch, k].step_seconds for k in ks) for batch in batches),
            errors=tuple(tuple(near[batch, k].error for k in ks) for batch in batches),
            context_tokens=contexts[0],
            context_slopes=tuple(
                max(0.0, mean(_slope(near[batch, k], far[batch, k]) for batch in batches[-3:])) for k in ks
            ),
            limits=Schedule.constant(max(ks)),
        )
    )


def _slope(near: MapCell, far: MapCell) -> float:
    """Seconds per token in the KV cache between two contexts; 0 where they are the same."""
    more = near.batch_size * ((far.context or 0.0) - (near.context or 0.0))
    return (far.step_seconds - near.step_seconds) / more if more > 0 else 0.0
