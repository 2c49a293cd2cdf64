"""Attaches the plugin's parts to a worker as vLLM makes one: its modules are not for every process.

Source: vLLM 0.32.0. Every worker is a `vllm.v1.worker.worker_base.WorkerBase`, whatever process it lives in.
A part that does not fit this vLLM is omitted alone, with an entry in the log.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from outrider_engine.vllm_adapter import adaptive_verification, drafter, sampler, v2_drafter
from outrider_engine.vllm_adapter.wrapping import wrap
from outrider_protocol.environment import K0_VARIABLE
from outrider_protocol.methods import K0

logger = logging.getLogger("vllm.outrider")


def attach_to_workers() -> None:
    """Attach what `parts` names to every worker. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin needs.
    """
    from vllm.v1.worker.worker_base import WorkerBase

    attach(WorkerBase)


def attach(worker: Any) -> None:
    """`attach_to_workers` on a given class."""
    wrap(worker, "__init__", _with_parts)


def _with_parts(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        for part, without in parts(vllm_config).items():
            try:
                part()
            except Exception:
                logger.exception("outrider: %s; the engine continues to serve", without)
        original(self, vllm_config, *args, **kwargs)

    return init


def parts(config: Any) -> dict[Callable[[], None], str]:
    """What is attached to a worker, and how it works without. On V1 none for the drafter with k0: Sync."""
    found: dict[Callable[[], None], str] = {}
    if adaptive_verification.verifies_adaptively(config):
        found[adaptive_verification.attach_to_outputs] = "trimmed drafts count as rejected ones"
    if config.use_v2_model_runner:
        found[v2_drafter.attach_to_v2_drafter] = (
            "the drafter follows every step, a draft model in full length"
        )
    elif os.environ.get(K0_VARIABLE) != K0.SYNC:
        found[drafter.attach_to_drafter] = "the drafter follows every step"
        found[sampler.attach_to_sampler] = "steps without drafts are sampled as those with drafts"
    return found
