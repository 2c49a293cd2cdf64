"""Which trials of the self-test began and did not end, kept over restarts of the process.

A drafter that ends the engine would end it again at each restart, and the engine would never serve. So
a trial is written down before it begins; at the next start its K counts as failed and is not tried.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

logger = logging.getLogger("vllm.outrider")


class SelfTestJournal:
    """A file with the K of unfinished trials, in a folder that outlives the container; None for no file.

    A file that cannot be read or written costs the memory and nothing else.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._unfinished = self._read()

    @property
    def unfinished(self) -> frozenset[int]:
        """Every K whose trial did not end at an earlier start."""
        return self._unfinished

    def begin(self, k: int) -> None:
        """The trial of ``k`` begins."""
        self._write({*self._unfinished, k})

    def end(self) -> None:
        """The trial that began last has ended, well or badly."""
        self._write(self._unfinished)

    def _read(self) -> frozenset[int]:
        if self._file is None:
            return frozenset()
        try:
            value = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return frozenset()
        return frozenset(k for k in value if isinstance(k, int)) if isinstance(value, list) else frozenset()

    def _write(self, unfinished: Iterable[int]) -> None:
        if self._file is None:
            return
        try:
            self._file.write_text(json.dumps(sorted(unfinished)))
        except OSError as error:
            logger.warning("outrider: trials of the self-test are not remembered: %s", error)
