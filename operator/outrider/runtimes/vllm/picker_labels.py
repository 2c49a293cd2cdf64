"""Labels by which endpoint pickers know an engine and its side of a KV connector."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.runtimes.vllm import kv_transfer

_ENGINE = ("inference.networking.k8s.io/engine-type", "llm-d.ai/engine-type")
"""Labels of the Gateway API Inference Extension 1.5.0 and of llm-d. Both take vLLM as the default."""
_SIDE = "llm-d.ai/role"
"""llm-d's decode filter also takes pods without it, and its prefill filter does not. KServe runs llm-d's."""
_SIDES = {kv_transfer.Role.PRODUCER: "prefill", kv_transfer.Role.CONSUMER: "decode"}
"""Engines of ``kv_both`` may be of either side, which `spec.podTemplate` can name."""


def picker_labels(spec: Spec) -> dict[str, str]:
    """The labels of an engine in an InferencePool.

    Raises:
        ValueError: the flag of the KV connector cannot be parsed; the message names it.
    """
    found = kv_transfer.transfer(spec)
    labels = dict.fromkeys(_ENGINE, "vllm")
    side = next((_SIDES[role] for role in _SIDES if found is not None and found.role == role), None)
    return labels if side is None else {**labels, _SIDE: side}
