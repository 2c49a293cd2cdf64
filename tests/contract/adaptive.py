"""A plugin for vLLM, for tests: adaptive verification on a CPU.

Only CUDA graphs keep it from a CPU: checks for them, and the curves of step costs that vLLM measures while it
captures them. Here the checks are omitted and the curves are given: a step costs `DRAFT_COST`, and
`VERIFY_COST` more for each token. What is drafted, trimmed, verified and accepted is vLLM's own code, without
graphs and compilation. Source: vLLM 0.32.0, `vllm.v1.worker.gpu.spec_decode.adaptive_verification` and
`vllm.config.vllm.VllmConfig._validate_adaptive_verification`. See `helper_plugins`.

Each trimmed step is written into the log, as the worker has it on its device: a second count.
"""

from __future__ import annotations

import json
import logging
from typing import Any

NAME = "adaptive"
STEP = "adaptive verification of "
"""In the log before the JSON of a step: scheduled drafts of each request, and those that are verified."""

DRAFT_COST = 1.0
VERIFY_COST = 0.3
_TOKENS = 64
"""Curves continue beyond with their last slope."""

logger = logging.getLogger("vllm.adaptive")


def register() -> None:
    """Omit the check of the configuration here, and the others in workers, which alone import the runner.

    The launcher asks before the start whether the attention backend has CUDA graphs for such steps.
    """
    from vllm.config.vllm import VllmConfig
    from vllm.v1.attention.backend import AttentionCGSupport
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadataBuilder
    from vllm.v1.worker.worker_base import WorkerBase

    VllmConfig._validate_adaptive_verification = lambda _: None
    CPUAttentionMetadataBuilder._cudagraph_support = AttentionCGSupport.ALWAYS
    make = WorkerBase.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        let_a_cpu_do_it()
        make(self, *args, **kwargs)

    WorkerBase.__init__ = made


def let_a_cpu_do_it() -> None:
    """Omit the checks of CUDA graphs, and give the cost curves. Once is enough."""
    import vllm.v1.worker.gpu.model_runner as runner
    import vllm.v1.worker.gpu.spec_decode.adaptive_verification as adaptive

    runner.resolve_adaptive_cudagraph_mode = lambda mode, **_: mode
    adaptive.get_varlen_cudagraph_unsupported_backend = lambda *_, **__: None
    adaptive._assign_draft_token_budget_compiled = adaptive._assign_draft_token_budget

    manager = adaptive.AdaptiveVerificationManager
    make, trim = manager.__init__, manager.reallocate_drafts

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        sizes = range(1, _TOKENS + 1)
        self.set_cost_curves(
            [(size, DRAFT_COST) for size in sizes], [(size, 1.0 + VERIFY_COST * size) for size in sizes]
        )

    def trimmed(self: Any, req_ids: Any, *args: Any) -> Any:
        drafts, _, _ = self._batch_budget
        found = trim(self, req_ids, *args)
        verified = self._batch_draft_capacity[: len(req_ids)].tolist()
        step = {"scheduled": [drafts[name] for name in req_ids], "verified": verified}
        logger.info("%s%s", STEP, json.dumps(step))
        return found

    manager.__init__, manager.reallocate_drafts = made, trimmed
