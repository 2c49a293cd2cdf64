"""The termination message: why an engine ends, written where Kubernetes reads it.

Kubernetes keeps the last 2 KiB of a log; after exit code 0 it keeps nothing. vLLM's API server logs more
after its engine core has ended. So the cause of a failed start is above those 2 KiB. After a failed step the
exit code is 0.

Source: vLLM 0.32.0, `vllm.v1.engine.core.EngineCoreProc.run_engine_core` and
`vllm.v1.executor.multiproc_executor.WorkerProc.worker_main`: what ends them is logged with its error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback

TERMINATION_LOG_VARIABLE = "OUTRIDER_TERMINATION_LOG"
LONGEST = 1024
"""Characters; Kubernetes keeps 4 KiB."""

FATAL = {
    "vllm.v1.engine.core": ("EngineCore failed to start.", "EngineCore encountered a fatal error."),
    "vllm.v1.executor.multiproc_executor": ("WorkerProc failed to start.",),
}
"""By logger, the messages of vLLM for an error that ends the engine."""


def leave(words: str) -> None:
    """Write why the engine ends. The first message counts, since later ones are consequences."""
    path = os.environ.get(TERMINATION_LOG_VARIABLE, "/dev/termination-log")
    # Kubernetes makes the file; elsewhere there is none, and none is made.
    with contextlib.suppress(OSError), os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "w") as log:
        if os.fstat(log.fileno()).st_size == 0:
            log.write(words + "\n")


def words_of(error: BaseException) -> str:
    """An error in one line, as Python names it."""
    line = " ".join("".join(traceback.format_exception_only(error)).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


class _Listener(logging.Filter):
    """Lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.msg in FATAL.get(record.name, ()):
            leave(words_of(error))
        return True


_LISTENER = _Listener()


def listen() -> None:
    """Write the cause whenever vLLM logs one. Repeated calls have no effect."""
    for name in FATAL:
        logging.getLogger(name).addFilter(_LISTENER)
