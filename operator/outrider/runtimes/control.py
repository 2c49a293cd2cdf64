"""What the operator can do with running engines of a runtime. Pure.

`outrider.engine.client` reads the state, puts a schedule and starts a probe. It uses Outrider's control API,
which the plugin of each runtime serves.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineControl:
    """Abilities of the running engines of one spec. The tuner uses no other ability."""

    reads_state: bool = False
    """The engine reports its state: batch size, CUDA graphs, step times, and whether it is simulated."""
    live_schedule: bool = False
    """The engine takes another schedule between two steps, with fence and lease. Otherwise the schedule
    comes with the launch."""
    probes: bool = False
    """The engine measures another K for a moment."""
    cost_model: bool = False
    """The engine chooses K at each step by a cost model."""
    skips_idle_drafter: bool = False
    """The drafter runs no pass at K=0."""


NO_CONTROL = EngineControl()
"""The abilities of engines without a control API."""
