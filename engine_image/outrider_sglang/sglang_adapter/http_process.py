"""Attaches the control API to SGLang's HTTP server, in the process that runs it.

SGLang sets the folder of Prometheus' files before it imports Prometheus' client, and the import decides how
the client counts. So nothing here imports the HTTP server, or the client, before SGLang has done so.

Source: SGLang 0.5.23, `sglang.srt.entrypoints.engine.Engine._launch_subprocesses`, which allocates the ports
once the environment is set, and `sglang.srt.entrypoints.http_server`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from outrider_sglang.sglang_adapter.engine_cores import SGLangCores
from outrider_sglang.sglang_adapter.hooks import Hook, apply_hooks_now, register_hooks, unapplied

logger = logging.getLogger("sglang.outrider")

_SERVER = "sglang.srt.entrypoints.http_server"

Serve: TypeAlias = Callable[[Any, SGLangCores], None]


def attach_to_http_server(serve: Serve) -> None:
    """Hook the allocation of ports, which every launch of a server does before it makes processes.

    serve: adds the control API to an application; called in the process of the HTTP server alone.

    Raises:
        ImportError, AttributeError: this SGLang has no registry of hooks.
    """
    register_hooks([Hook("sglang.srt.server_args.PortArgs.init_new", partial(_ports, serve))])


def _ports(serve: Serve, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    ports = original(*args, **kwargs)
    # Data-parallel controllers and other servers allocate ports, too.
    if _SERVER in sys.modules:
        try:
            hooks = [Hook(f"{_SERVER}._setup_and_run_http_server", partial(_run_server, serve))]
            if unapplied(hooks):
                register_hooks(hooks)
                apply_hooks_now()
        except Exception:
            logger.exception("outrider: the engine has no control API; it continues to serve")
    return ports


def _run_server(
    serve: Serve,
    original: Callable[..., Any],
    server_args: Any,
    tokenizer_manager: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    try:
        _add_api(serve, server_args, tokenizer_manager)
    except Exception:
        logger.exception("outrider: the engine has no control API; it continues to serve")
    return original(server_args, tokenizer_manager, *args, **kwargs)


def _add_api(serve: Serve, server_args: Any, tokenizer_manager: Any) -> None:
    from sglang.srt.entrypoints.http_server import app

    if tokenizer_manager is None or server_args.tokenizer_worker_num > 1:
        logger.error(
            "outrider: the engine has no control API, because SGLang serves from processes that load no "
            "plugins; to tune, leave out --tokenizer-worker-num and SGLANG_RUST_SERVER"
        )
        return
    serve(app, SGLangCores(tokenizer_manager, int(server_args.dp_size)))
