"""The launch of engines that Outrider did not launch, as they report it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.api.drafting import MAX_K, default_candidates, default_schedule
from outrider.controller.fleet import EnginePod
from outrider.engine.state import EngineState
from outrider.tuning.policy import Policy
from outrider_protocol.engine_state import Source
from outrider_protocol.methods import TRAITS, Method, method_named
from outrider_protocol.schedule import Schedule

_MAX_CANDIDATES = 8
_UNKNOWN_BATCH = 1024
"""Batch bins for an engine that does not report its limit; vLLM's largest default."""


@dataclass(frozen=True, slots=True, order=True)
class TargetLaunch:
    """The part of a launch that pods must share to be tuned together."""

    method: Method
    candidates: tuple[int, ...]
    """Values of K that the tuner may use, ascending."""
    engine_version: str
    runner: str
    max_num_seqs: int
    """Maximum batch size of an engine."""
    skips_idle_drafter: bool
    """The drafter runs no pass at K=0."""

    def __str__(self) -> str:
        """Return the launch in words for a message."""
        of_k = ", ".join(map(str, self.candidates))
        return f"{self.method} with K {of_k}, vLLM {self.engine_version} on runner {self.runner}"

    def static(self, known: Schedule | None) -> Schedule:
        """The static schedule: the known one, or the default if it is unknown or has other values of K."""
        fits = known is not None and known.values() <= set(self.candidates)
        return known if known is not None and fits else default_schedule(self.method, self.candidates)

    @property
    def searches_text(self) -> bool:
        """Whether drafts come from the text (n-gram, suffix) and not from a model."""
        return TRAITS[self.method].searches_text

    @property
    def policy(self) -> Policy:
        """The policy of the tuner."""
        policy = Policy(self.candidates, self.max_num_seqs)
        if self.searches_text:
            policy = policy.changed(min_draft_share=0.0)
        return policy.with_idle_drafter() if self.searches_text or self.skips_idle_drafter else policy


@dataclass(frozen=True, slots=True)
class TargetPods:
    """The pods of one target after a reconcile.

    claimed: UIDs of all selected pods, whether they are tuned or not.
    launch, static: the launch of the tuned pods and their static schedule; None if none can be tuned.
    ready: the pods that serve and are tuned. starting: pods that will probably be tuned.
    """

    claimed: frozenset[str]
    launch: TargetLaunch | None = None
    static: Schedule | None = None
    ready: tuple[EnginePod, ...] = ()
    starting: tuple[EnginePod, ...] = ()


def launch_of(state: EngineState) -> TargetLaunch:
    """Return the launch that an engine reports.

    Raises:
        ValueError: Outrider cannot tune it; the message is a clause with the cause and the remedy.
    """
    if not state.live_tuning.possible:
        raise ValueError(f"K cannot change while the engine runs: {state.live_tuning.reason or 'no reason'}")
    method = None if state.method is None else method_named(state.method)
    if method is None:
        raise ValueError(f"Outrider does not know its method {state.method}")
    candidates = _candidates(method, state.captured_k)
    if len(candidates) < 2:
        raise ValueError(
            "it was launched with one K; to tune it, set OUTRIDER_CANDIDATES=0,1,… in its pod, up to its "
            "num_speculative_tokens"
        )
    return TargetLaunch(
        method=method,
        candidates=candidates,
        engine_version=state.engine_version or "",
        runner=state.runner or "",
        max_num_seqs=state.max_num_seqs or _UNKNOWN_BATCH,
        skips_idle_drafter=state.idle_drafter is not None and state.idle_drafter.skipped,
    )


def static_schedule_of(state: EngineState) -> Schedule | None:
    """Return the schedule that an engine was launched with; None while a pushed one is in force."""
    return None if state.source is Source.PUSHED else state.schedule


def _candidates(method: Method, captured: frozenset[int]) -> tuple[int, ...]:
    """The values of K of a launch; the default choice among them if they are many."""
    able = tuple(sorted(k for k in captured if k <= MAX_K))
    if len(able) <= _MAX_CANDIDATES:
        return able
    return tuple(k for k in default_candidates(method, able[-1]) if k in captured)
