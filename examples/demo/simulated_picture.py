"""The part of the picture about simulated engines. Every title in it says simulated."""

from __future__ import annotations

from typing import Any

from examples.demo.panels import OwnTime, draw_concurrency, draw_draft_length, draw_rates, share_time
from examples.demo.result import Simulated

BACKGROUND = "#FFF3D6"
"""Background of this part alone, so that a cut-out is not mistaken for a measurement."""


def draw_simulated(part: Any, found: Simulated) -> None:
    """Three panels over a time axis of their own."""
    part.set_facecolor(BACKGROUND)
    part.suptitle(found.title, fontweight="bold")
    axes = part.subplots(3, 1, sharex=True, height_ratios=[1.6, 1, 1.3])
    for axis in axes:
        axis.set_facecolor(BACKGROUND)
    own = OwnTime(found.stretches)
    draw_rates(axes[0], own, found.phases)
    axes[0].set_title("Simulated throughput of all streams (prompts, concurrent streams)", pad=20)
    draw_concurrency(axes[1], own)
    axes[1].set_title("Concurrency of the simulated run")
    draw_draft_length(axes[2], own, found.statuses, found.k_in_use, found.candidates)
    axes[2].set_title("K (num_speculative_tokens), simulated engines")
    share_time(axes, own)
    axes[-1].set_xlabel("seconds since the start of the simulated run")
