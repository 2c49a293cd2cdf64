"""What is known of a stand-in before it serves: its step times, its map of them, an offline profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from operator import mul

from outrider.performance.step_time import StepTime, Timing
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.policy import Policy
from outrider_lab.maps import CONTEXTS, PROFILE_ERRORS, MapErrors, measured_map
from outrider_lab.rivals.profiled import OfflineProfile
from outrider_twin import step_time
from outrider_twin.settings import Settings as TwinSettings

SWEEP_ERRORS = MapErrors(0.02, scale=0.01)
"""Of the map that a stand-in measures of itself, against its own arithmetic."""


@dataclass(frozen=True, slots=True)
class TableSteps:
    """Step times of a stand-in that lives on measured throughputs; see `Timing`."""

    steps: step_time.Timing
    plain: step_time.Timing
    per_token: float
    idle_tax: float = 0.0

    def seconds(self, batch: float, k: int, kv_tokens: float, prompt_tokens: float = 0.0) -> float:
        """See `Timing`."""
        requests, prompt = max(1, round(batch)), round(prompt_tokens)
        tokens = requests * (1 + k) + prompt
        return self.steps.seconds(
            step_time.Load(
                k=k,
                decoding=requests,
                requests=requests,
                tokens=tokens,
                prompt_tokens=prompt,
                kv_tokens=round(kv_tokens),
            )
        )

    def growth(self, k: int) -> float:  # noqa: ARG002
        """Throughputs know no context."""
        return 0.0

    def without_drafter(self) -> TableSteps:
        """See `Timing`."""
        return replace(self, steps=self.plain)


def steps_of(settings: TwinSettings) -> Timing:
    """The stand-in's own step times, for the simulator."""
    description = settings.description()
    timing, plain = (description.timing(drafter=drafter) for drafter in (True, False))
    if isinstance(timing, step_time.StepTime):
        return StepTime(**asdict(timing))
    assert description.throughput is not None
    return TableSteps(timing, plain, description.throughput.prompt_token_seconds)


def step_time_map(settings: TwinSettings, law: Policy, errors: MapErrors, seed: int) -> StepTimeProfile:
    """What it would measure of itself."""
    steps = steps_of(settings)

    def step_seconds(batch: float, k: int, context: float | None) -> float:
        return steps.seconds(batch, k, batch * (context or 0.0))

    return measured_map(
        step_seconds,
        candidates=law.candidates,
        largest_batch=law.max_num_seqs,
        contexts=(None,) if isinstance(steps, TableSteps) else CONTEXTS,
        errors=errors,
        seed=seed,
    )


def offline_profile(settings: TwinSettings, law: Policy, seed: int) -> OfflineProfile:
    """Measured on texts of all classes."""
    survival = tuple(accumulate(usual_chances(settings), mul))[: max(law.candidates)]
    return OfflineProfile(step_time_map(settings, law, PROFILE_ERRORS, seed), survival)


def chances(settings: TwinSettings) -> Mapping[str, tuple[float, ...]]:
    """Of each position, given that all before it were accepted, by class of text."""
    return {name: curve.chances for name, curve in settings.description().curves().items()}


def usual_chances(settings: TwinSettings) -> tuple[float, ...]:
    """Over texts of all classes, by how many drafts get there."""
    shares, of = dict(settings.shares()), chances(settings)
    known = {name: tuple(accumulate(of[name], mul)) for name in shares}
    whole = sum(shares.values())
    positions = min(map(len, known.values()))
    survival = [
        sum(share * known[name][position] for name, share in shares.items()) / whole
        for position in range(positions)
    ]
    return tuple(after / before if before > 0 else 0.0 for before, after in pairwise((1.0, *survival)))
