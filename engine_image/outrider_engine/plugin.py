"""Entry point of the group ``vllm.general_plugins``: runs in every vLLM process."""

from __future__ import annotations

import logging

logger = logging.getLogger("vllm.outrider")


def register() -> None:
    """Attach the control to vLLM. Never raises: without it the state has the cause, and the engine serves."""
    try:
        from outrider_engine.http.termination_message import listen
        from outrider_engine.vllm_adapter.engine_core import attach_to_engine_core
        from outrider_engine.vllm_adapter.processes import FATAL
        from outrider_engine.vllm_adapter.worker import attach_to_workers

        listen(FATAL)
        attach_to_engine_core()
        attach_to_workers()
    except Exception:
        logger.exception("outrider: this vLLM cannot be controlled; the engine continues to serve")
    try:
        from outrider_engine.vllm_adapter.cpu_sampling import mend_on_cpu

        mend_on_cpu()
    except Exception:
        logger.exception(
            "outrider: sampling with drafts may be wrong on a CPU; the engine continues to serve"
        )
