"""The numbers of pushed tables. They outlive every tuner of the process, so that none is used twice."""

from __future__ import annotations


class Epochs:
    """One rising count per model, kept for as long as the process lives.

    Engines refuse an older epoch of the same term, also after its lease. A tuner that is built anew in that
    term, since its loop failed or its model was away for a while, has to go on above the last one's.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def next(self, uid: str, *, above: int = 0) -> int:
        """A larger one than any before of this model, and than ``above``."""
        self._last[uid] = max(self._last.get(uid, 0), above) + 1
        return self._last[uid]
