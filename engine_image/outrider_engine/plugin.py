"""Entry point of the group ``vllm.general_plugins``: runs in every vLLM process."""

from __future__ import annotations

import logging

logger = logging.getLogger("vllm.outrider")


def register() -> None:
    """Attach the control to vLLM. Never raises; without it the state says why and serving goes on."""
    try:
        from outrider_engine.attach import attach_to_vllm

        attach_to_vllm()
    except Exception:
        logger.exception("outrider: this vLLM cannot be controlled; serving goes on")
