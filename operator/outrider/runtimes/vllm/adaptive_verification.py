"""Where vLLM can verify adaptively, as far as a manifest shows it.

The GPU and the attention backend are known in the pod only; the launcher of the plugin asks vLLM there.
Source: ``VllmConfig._validate_adaptive_verification``, ``SpeculativeConfig.__post_init__``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from outrider.api.engine import ModelRunner
from outrider.api.spec import Spec
from outrider.api.speculation_fields import Verification
from outrider.runtimes.flag_values import own_value
from outrider.runtimes.resources import uses_gpu
from outrider.runtimes.vllm.runner import tuned_on
from outrider_protocol.k_control import best_runner
from outrider_protocol.methods import Method
from outrider_protocol.releases import (
    ADAPTIVE_SINCE,
    NEWEST_VERSION,
    VERSIONS,
    Runner,
    Version,
    parse_version,
    version_text,
)

_ADAPTIVE = "spec.speculation.verification: Adaptive"
_FIXED = "spec.speculation.verification: Fixed"
_LOCAL_ARGMAX = "use_local_argmax_reduction"
_SWITCHES: Mapping[str, str] = {
    "enable-lora": "which does not serve LoRA adapters",
    "enforce-eager": "which needs full CUDA graphs",
    "enable-return-routed-experts": "which does not return routed experts",
}
"""Flag -> what adaptive verification cannot do with it."""


def refusal(spec: Spec) -> str | None:
    """Why no engine of this spec can verify adaptively; None where one may, or need not."""
    wanted, version = spec.speculation, spec.engine.version
    first = ADAPTIVE_SINCE.get(wanted.method)
    if not wanted.may_verify_adaptively or first is None:
        return None
    refused = partial(_refused, wanted.verification)
    if parse_version(version) < first:
        return (
            f"vLLM {version} has no adaptive verification for method {wanted.method}; set "
            f"spec.engine.version: {version_text(first)}.0 or newer, or {_FIXED}"
        )
    if wanted.compares_verification and not spec.live:
        return refused("which compares tuned launches, and K cannot change here", f"set {_ADAPTIVE}")
    if not uses_gpu(spec):
        return refused("which needs CUDA graphs, and spec.resources has no GPU", "request one")
    if spec.engine.model_runner is ModelRunner.V1:
        return refused("which V1 does not have", "set spec.engine.modelRunner: Auto")
    if spec.parallelism.pipeline > 1:
        return refused("which does not work with pipeline stages", "set spec.parallelism.pipeline: 1")
    if wanted.config.get(_LOCAL_ARGMAX) is True:
        return refused(
            "which needs the drafter's logits", f"leave out spec.speculation.config.{_LOCAL_ARGMAX}"
        )
    if spec.live and tuned_on(spec.verifying(adaptive=True)) is None:
        return refused(
            f"and vLLM {version} changes no K of {wanted.method} on V2, which that needs",
            f"set spec.engine.version: {version_text(_tuned_since(wanted.method))}.0 or newer, or "
            "spec.speculation.tuning.mode: Off",
        )
    for flag, why in _SWITCHES.items():
        if own_value(spec.engine.args, flag) is True:
            return refused(why, f"leave out spec.engine.args.{flag}")
    return None


def _tuned_since(method: Method) -> Version:
    """The first version in which K of a method changes on V2, with the plugin."""
    changing = (v for v in VERSIONS if best_runner(method.variant, v, plugin=True, runners=(Runner.V2,)))
    return next(changing, NEWEST_VERSION)


def _refused(wanted: Verification, why: str, remedy: str) -> str:
    return f"spec.speculation.verification is {wanted}, {why}; {remedy}, or set {_FIXED}"
