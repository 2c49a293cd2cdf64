"""Why an engine ends, left where Kubernetes reads it.

Kubernetes keeps the last 2 KiB of a log, and nothing of one that ends with exit code 0. vLLM's API server
talks on after its engine core has ended: of a core that cannot start the cause lies above those 2 KiB,
and after a step that failed the exit code is 0.

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
"""By logger, what vLLM says of an error that ends the engine."""


def leave(words: str) -> None:
    """Say why the engine ends. The first words count: whatever follows is a consequence."""
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
    """Leave the cause where vLLM logs one. Once per process is enough; more often does no harm."""
    for name in FATAL:
        logging.getLogger(name).addFilter(_LISTENER)
