"""What the control must know of its engine: what it was launched with, and what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity of an engine in tokens: one request, and the KV cache of all."""

    request: int
    cache: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine was launched with. ``method`` is None without speculation.

    runner: name of the engine's model runner; None where it has one only.
    num_speculative_tokens: the longest draft.
    adapters_of: the model's name, where the engine serves LoRA adapters of it; else None.
    adaptive_verification: the engine decides in each step which drafts it verifies.
    simulated: source of the step times of a simulated engine; None for a real one.
    cuda_graphs: the engine's mode of CUDA graphs by its name; None where it has none.
    room: None where this release does not report it.
    drafts_ahead: a step drafts what the next one verifies. False: it verifies its own drafts.
    """

    engine_version: str
    method: str | None
    runner: str | None
    max_num_seqs: int
    num_speculative_tokens: int
    adapters_of: str | None = None
    adaptive_verification: bool = False
    simulated: str | None = None
    cuda_graphs: str | None = None
    room: Room | None = None
    drafts_ahead: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What keeps an engine from something, as a reason; None where nothing does.

    live_tuning: to change K while it runs.
    fast_loop: to take a cost model, beside what keeps it from live tuning.
    idle_drafter: to leave the drafter out of steps with K=0.
    profile: to measure a startup profile.
    refused_k: K with which this release answers incorrectly, and why; empty where none is known.
    """

    live_tuning: str | None
    fast_loop: str | None
    idle_drafter: str | None
    profile: str | None = None
    refused_k: Mapping[int, str] = field(default_factory=dict)
