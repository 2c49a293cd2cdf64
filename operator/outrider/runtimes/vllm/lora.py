"""LoRA adapters as vLLM's flags. vLLM loads them before it serves, and ends where it cannot.

Source: vLLM 0.32.0, `OpenAIServingModels.init_static_loras`.
"""

from __future__ import annotations

import json

from outrider.api.engine_args import Scalar
from outrider.api.spec import Spec
from outrider.runtimes.artifacts import path_in_pod
from outrider.runtimes.flag_values import canonical
from outrider.runtimes.vllm.flags import FLAGS

ENABLE, MODULES = "enable-lora", "lora-modules"


def flags(spec: Spec) -> dict[str, Scalar | list[Scalar]]:
    """The flags of the adapters in the spec; none without one."""
    if not spec.engine.lora_adapters:
        return {}
    modules: list[Scalar] = [
        json.dumps({"name": each.name, "path": path_in_pod(each.uri)}, separators=(",", ":"))
        for each in spec.engine.lora_adapters
    ]
    return {ENABLE: True, MODULES: modules}


def refusal(spec: Spec) -> str | None:
    """Why the flags of the spec contradict its adapters; None where they do not."""
    if not spec.engine.lora_adapters:
        return None
    twice = next(
        (flag for flag in spec.engine.args if FLAGS.full_name(canonical(flag)) in (ENABLE, MODULES)), None
    )
    if twice is None:
        return None
    return f"spec.engine.args.{twice} is set by Outrider, because spec has engine.loraAdapters; leave it out"
