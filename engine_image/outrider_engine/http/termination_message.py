"""The termination message: why an engine ends, written where Kubernetes reads it.

Kubernetes keeps the last 2 KiB of a log; after exit code 0 it keeps nothing. vLLM's API server logs more
after its engine core has ended. So the cause of a failed start is above those 2 KiB. After a failed step the
exit code is 0.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from collections.abc import Collection, Mapping

TERMINATION_LOG_VARIABLE = "OUTRIDER_TERMINATION_LOG"
MAX_CHARACTERS = 1024
"""Kubernetes keeps 4 KiB."""


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
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1]}…"


class _Listener(logging.Filter):
    """Lets every record pass, and writes the error of a fatal one."""

    def __init__(self, messages: Collection[str]) -> None:
        super().__init__()
        self._messages = messages

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.msg in self._messages:
            leave(words_of(error))
        return True


def listen(fatal: Mapping[str, Collection[str]]) -> None:
    """Write the cause whenever one of these is logged. Repeated calls have no further effect.

    fatal: messages for an error that ends the engine, by logger.
    """
    for name, messages in fatal.items():
        logging.getLogger(name).addFilter(_Listener(messages))
