"""Launches that keep one K, although their method can change it: release, runner or head do not allow it.

Their engines start as without Outrider, since a guess at another runner could end them.
"""

from __future__ import annotations

from outrider.api.engine import ModelRunner
from outrider.api.spec import Spec
from outrider.api.tuning import Canary, StructuralOff, TuningMode
from outrider.api.weights import WeightsStatus
from outrider.runtimes.resources import uses_gpu
from outrider.runtimes.vllm.architectures import DraftLayout, draft_layout
from outrider.runtimes.vllm.runner import tuned_on
from outrider_protocol.k_control import best_runner
from outrider_protocol.methods import TRAITS, Kind, Method
from outrider_protocol.releases import VERSIONS, Runner, version_text


def settled(spec: Spec, weights: WeightsStatus | None) -> Spec:
    """``spec`` with one K where no runner changes it."""
    if _why(spec, weights) is None:
        return spec
    wanted = spec.speculation
    untuned = {
        "mode": TuningMode.OFF,
        "structural_off": StructuralOff.NEVER,
        "canary": Canary.NEVER,
    }
    one_k = {
        "candidates": [wanted.num_speculative_tokens],
        "schedule": None,
        "tuning": wanted.tuning.model_copy(update=untuned),
    }
    return spec.model_copy(update={"speculation": wanted.model_copy(update=one_k)})


def advice(spec: Spec, weights: WeightsStatus | None) -> str | None:
    """That K stays, why, and what would change it; None where it does not stay, or was asked to."""
    why = _why(spec, weights)
    if why is None:
        return None
    k = spec.speculation.num_speculative_tokens
    return f"K stays {k}, and candidates, schedule and tuning are not used: {why}"


def _why(spec: Spec, weights: WeightsStatus | None) -> str | None:
    """Why K stays; None where it changes, or where `runner_refusal` says that it does not."""
    method = spec.speculation.method
    if not spec.live or not TRAITS[method].same_cost:
        return None
    if spec.one_k and TRAITS[method].kind is Kind.BLOCK:
        return (
            "with parallelism.data above 1 every K is a launch of its own, and a head drafts as many tokens "
            "as it was trained for. To tune it, set parallelism.data: 1"
        )
    runner = tuned_on(spec)
    if runner is None:
        return f"{_no_runner(spec)}; {_remedy(spec)}"
    named = spec.engine.model_runner is not ModelRunner.AUTO
    if method is not Method.DFLASH or runner is Runner.V2 or named:
        return None
    layout = draft_layout(spec, weights)
    if layout is DraftLayout.PLAIN:
        return None
    if layout is DraftLayout.UNKNOWN:
        return (
            "V1 runs plain heads only, and nothing says whether this one is plain. With spec.cache its "
            f"config.json is read; where you know it is, set spec.engine.modelRunner: V1. Or {_remedy(spec)}"
        )
    return f"the drafter is {layout.value}, which only V2 has; {_remedy(spec)}"


def _no_runner(spec: Spec) -> str:
    method, version, named = spec.speculation.method, spec.engine.version, spec.engine.model_runner
    if named is not ModelRunner.AUTO:
        return f"the {named} runner of vLLM {version} does not change K of {method}"
    return f"vLLM {version} does not change K of {method} on a runner that this launch can have"


def _remedy(spec: Spec) -> str:
    """What would change K on V2."""
    name = spec.speculation.method.variant
    v2 = (version for version in VERSIONS if best_runner(name, version, plugin=True) is Runner.V2)
    first = next(v2, None)
    if first is None:
        return f"no release of vLLM changes K of {spec.speculation.method} on V2"
    place = "" if uses_gpu(spec) else " and a GPU"
    return f"use vLLM {version_text(first)} or newer with V2{place}"
