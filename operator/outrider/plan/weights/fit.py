"""Whether a drafter fits its target, by what both say of themselves. Pure.

Only what vLLM is certain to refuse or to compute wrongly: unknown sizes do not count against it.
"""

from __future__ import annotations

from collections.abc import Mapping

from outrider.api.engine import ModelRunner
from outrider.api.spec import Spec
from outrider.api.speculation import Speculation
from outrider.api.speculative_config import OWN_VOCABULARY
from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider.plan.weights.room import no_room
from outrider_protocol.methods import TRAITS, Method

_SPECULATORS: Mapping[str, tuple[Method, ...]] = {
    "eagle3": (Method.EAGLE3,),
    "peagle": (Method.P_EAGLE, Method.EAGLE3),
    "dflash": (Method.DFLASH,),
    "dflash2": (Method.DFLASH,),
    "dspark": (Method.DSPARK,),
}
"""vLLM: ``SUPPORTED_SPECULATORS_TYPES``, and the methods that each is launched as."""


def mismatch(speculation: Speculation, weights: WeightsStatus) -> str | None:
    """Why the drafter cannot draft for this target, with both numbers; None where it may."""
    target, drafter = weights.model, weights.drafter
    if target is None or drafter is None:
        return None
    methods = _SPECULATORS.get(drafter.made_for_method or "", (speculation.method,))
    if speculation.method not in methods:
        return f"{drafter.uri} was made for the method {methods[0]}: set spec.speculation.method to that"
    if speculation.method is Method.DRAFT_MODEL and not speculation.config.get(OWN_VOCABULARY):
        return _other_vocabulary(target, drafter)
    if TRAITS[speculation.method].is_head:
        return _other_width(target, drafter)
    return None


def advice(spec: Spec, weights: WeightsStatus) -> str | None:
    """What engines will take, and will not go as well as it could; None where nothing is known."""
    target, drafter = weights.model, weights.drafter
    notes = [no_room(spec, weights), _independent_ranks(spec, target)]
    if drafter is not None:
        notes.append(_other_length(spec.speculation, drafter))
    if target is not None and drafter is not None and spec.speculation.method is Method.DRAFT_MODEL:
        notes += [_short(spec, target, drafter), _other_template(target, drafter)]
    if target is not None and drafter is not None and TRAITS[spec.speculation.method].is_head:
        notes.append(_trained_short(spec, target, drafter))
    return "; ".join(each for each in notes if each) or None


def _independent_ranks(spec: Spec, target: ArtifactStatus | None) -> str | None:
    """vLLM: ``EngineCoreProc.run_engine_core`` has ranks wait for each other in a mixture of experts alone,
    and drops the schedule of all (``VllmConfig._maybe_disable_dynamic_sd_for_data_parallel``)."""
    ranks = spec.parallelism.data
    if ranks == 1 or target is None or target.layers is None or target.experts is not None:
        return None
    return (
        f"{target.uri} has no experts, so its {ranks} ranks are engines of their own; to tune each live, "
        f"set replicas: {ranks * spec.replicas} and parallelism.data: 1"
    )


def _other_length(speculation: Speculation, drafter: ArtifactStatus) -> str | None:
    """vLLM: ``SpeculatorsConfig.build_vllm_speculative_config`` takes the drafter's own length by default."""
    trained, wanted = drafter.made_for_tokens, speculation.num_speculative_tokens
    if trained is None or wanted is None or trained == wanted:
        return None
    gap = f"the drafter was made for drafts of {trained} tokens, and numSpeculativeTokens is {wanted}"
    return f"{gap}: later tokens are guesses" if wanted > trained else f"{gap}: longer drafts are not tried"


def _short(spec: Spec, target: ArtifactStatus, drafter: ArtifactStatus) -> str | None:
    """vLLM: ``_maybe_override_draft_max_model_len``, which EAGLE heads are exempt from, and the runner's
    ``effective_drafter_max_model_len``."""
    longest, drafted = spec.model.longest_context or target.longest_context, drafter.longest_context
    if longest is None or drafted is None or drafted >= longest:
        return None
    gap = f"the drafter was made for {drafted} tokens, and the engine takes {longest}"
    if not spec.live and spec.engine.model_runner is not ModelRunner.V1:
        return f"{gap}: longer requests are not drafted, and on V2 vLLM 0.33 refuses them"
    return f"{gap}: longer requests continue without drafts"


def _trained_short(spec: Spec, target: ArtifactStatus, drafter: ArtifactStatus) -> str | None:
    """vLLM lets these heads draft at any length, so nothing but acceptance shows the limit."""
    longest, drafted = spec.model.longest_context or target.longest_context, drafter.longest_context
    if longest is None or drafted is None or drafted >= longest:
        return None
    return (
        f"the head was made for {drafted} tokens, and the engine takes {longest}: fewer drafts are accepted "
        "in longer requests"
    )


def _other_template(target: ArtifactStatus, drafter: ArtifactStatus) -> str | None:
    if None in (target.chat_template, drafter.chat_template) or target.chat_template == drafter.chat_template:
        return None
    return "the drafter's chat template is another one: it may have been trained on other conversations"


def _other_vocabulary(target: ArtifactStatus, drafter: ArtifactStatus) -> str | None:
    """vLLM: ``SpeculativeConfig.verify_equal_vocab_size_if_draft_model``."""
    sizes = (target.vocabulary_size, drafter.vocabulary_size)
    if None in sizes or sizes[0] == sizes[1]:
        return None
    return (
        f"{target.uri} has a vocabulary of {sizes[0]} tokens and {drafter.uri} one of {sizes[1]}: "
        f"take a drafter of the same family, or set spec.speculation.config.{OWN_VOCABULARY}: true"
    )


def _other_width(target: ArtifactStatus, drafter: ArtifactStatus) -> str | None:
    """vLLM: ``target_hidden_size`` in ``llama_eagle3``, the drafter's own width where it says nothing."""
    made_for = drafter.target_hidden_size or drafter.hidden_size
    if made_for is None or target.hidden_size is None or made_for == target.hidden_size:
        return None
    return (
        f"{drafter.uri} was made for a target with a hidden size of {made_for}, and {target.uri} has "
        f"{target.hidden_size}: take the drafter of this very model"
    )
