"""Entry point of the group ``sglang.srt.plugins``: runs in every SGLang process that loads plugins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider_sglang.sglang_adapter.engine_cores import SGLangCores

logger = logging.getLogger("sglang.outrider")


def register() -> None:
    """Attach the control to SGLang. Never raises: the engine serves without it, and its state says why."""
    try:
        from outrider_sglang.sglang_adapter.http_process import attach_to_http_server
        from outrider_sglang.sglang_adapter.scheduler_process import attach_to_scheduler

        attach_to_scheduler()
        attach_to_http_server(_serve)
    except Exception:
        logger.exception("outrider: this SGLang cannot be controlled; the engine continues to serve")


def _serve(app: Any, engines: SGLangCores) -> None:
    """Add the control API. Its module imports Prometheus' client, which SGLang must have set up before."""
    from outrider_sglang.api import serve

    serve(app, engines)
