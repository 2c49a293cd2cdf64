"""Which trials of the self-test began and did not end, kept over restarts of the process.

A drafter that ends the engine would end it again at each restart, and the engine would never serve. So
a trial is written down before it begins; at the next start its K counts as failed and is not tried.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger("vllm.outrider")


class SelfTestJournal:
    """A file with the K of unfinished trials, in a folder that outlives the container; None for no file.

    A file that cannot be read or written costs the memory and nothing else.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        found: object = None
        with suppress(OSError, ValueError):
            found = file and json.loads(file.read_bytes())
        listed = found if isinstance(found, list) else ()
        self.unfinished = frozenset(k for k in listed if isinstance(k, int))
        """Every K whose trial did not end at an earlier start."""

    def begin(self, k: int) -> None:
        """The trial of ``k`` begins."""
        self._write({*self.unfinished, k})

    def end(self) -> None:
        """The trial that began last has ended, well or badly."""
        self._write(self.unfinished)

    def _write(self, unfinished: Iterable[int]) -> None:
        if self._file is None:
            return
        try:
            self._file.write_text(json.dumps(sorted(unfinished)))
        except OSError as error:
            logger.warning("outrider: trials of the self-test are not remembered: %s", error)
