"""Images that vLLM's makers publish: they hold vLLM, and not Outrider's plugin in it."""

from __future__ import annotations

import re

from outrider.api.spec import Spec
from outrider.api.speculation import Actuation
from outrider.api.text import shortened

_STOCK = re.compile(
    r"(.*/)?(vllm/vllm-[a-z0-9-]+|vllm-[a-z0-9-]*release-repo|rocm/vllm(-dev)?|nvidia/vllm)(:[^/]*)?(@sha256:[0-9a-f]+)?"
)
"""By the repository, in any registry: ``vllm/vllm-openai``, ``public.ecr.aws/…/vllm-cpu-release-repo``,
``rocm/vllm``, ``nvcr.io/nvidia/vllm``."""


def stock_image_refusal(spec: Spec) -> str | None:
    """Why the named image cannot be launched with Outrider's plugin; None where it may, or need not.

    Outrider's launcher is part of the plugin, so such an engine would end before it says a word.
    """
    image, tuning = spec.engine.image, spec.speculation.tuning
    if image is None or tuning.actuation is Actuation.ROLLOUT or _STOCK.fullmatch(image) is None:
        return None
    return (
        f"spec.engine.image {shortened(image, 80)} lacks the plugin that actuation Live needs; leave "
        "image out, build one on top of it (engine_image/Dockerfile), or set "
        "spec.speculation.tuning.actuation: Rollout"
    )
