"""Drafts that vLLM scheduled for verification and its adaptive verification trimmed, step by step.

vLLM's own sums have all drafts of a step. Which requests they cover, vLLM decides: not those that ended while
the step ran. So the requests are written down as vLLM counts them, and compared with the worker's numbers.
Pure except for its own lists. Runs on the engine core's thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from outrider_protocol.engine_state import VerificationWire

UNKNOWN = (
    "adaptive verification trims drafts and this vLLM does not report which, so they count as rejected drafts"
)


class TrimmedDrafts:
    """The trimmed drafts of each step by position.

    positions: the longest draft.
    adaptive: whether vLLM verifies adaptively. Otherwise it trims none.
    """

    def __init__(self, positions: int, *, adaptive: bool) -> None:
        self.adaptive = adaptive
        self.missing = False
        """Whether a step with drafts came without the worker's numbers. From then on none is trimmed."""
        self._positions = positions
        self._counted: list[tuple[str, int]] = []

    def counted(self, request_id: str, drafts: int) -> None:
        """vLLM counted the drafts of a request, in the step whose result it reads now."""
        if drafts and not self.missing:
            self._counted.append((request_id, drafts))

    def forget(self) -> None:
        """Drop the step that vLLM has counted, since the plugin does not count it."""
        self._counted.clear()

    def end_step(self, verified: Sequence[int] | None, index: Mapping[str, int]) -> Sequence[int] | None:
        """The trimmed drafts of the step by position; empty without drafts, None where they are missing.

        verified: the worker's number of each request; None where it sent none.
        index: of each request in ``verified``.
        """
        counted, self._counted = self._counted, []
        if not counted:
            return ()
        if verified is None:
            self.missing = True
            return None
        # By position, how many more are trimmed than at the one before: two additions for each request.
        changes = [0] * (self._positions + 1)
        for request_id, drafts in counted:
            kept = verified[index[request_id]]
            if kept < drafts:
                changes[kept] += 1
                changes[drafts] -= 1
        return list(accumulate(changes[:-1]))

    def to_wire(self) -> VerificationWire:
        """The form in which the state shows it."""
        return VerificationWire(
            adaptive=self.adaptive,
            trimmedDraftsCounted=not self.missing if self.adaptive else None,
            reason=UNKNOWN if self.missing else None,
        )
