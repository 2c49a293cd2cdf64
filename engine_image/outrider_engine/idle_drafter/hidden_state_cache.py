"""The target's hidden states of tokens that a drafter missed, by slot of the KV cache.

EAGLE's drafters read them besides the text, and vLLM has them for the tokens of one step only. The newest
`ROWS` are kept, in memory that is taken once. Nothing waits for the device until they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from outrider_engine.idle_drafter.drafter_skip import MAX_BEHIND

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 3 * MAX_BEHIND // 2
"""Room for what all running requests missed, and for what was kept for requests that have ended since."""

NOTHING = -1
"""In the place of a slot."""


class HiddenStateCache:
    """A ring of hidden states. Of two for one slot the newer one holds."""

    def __init__(self) -> None:
        self._slots: Tensor | None = None  # [rows]
        self._states: Tensor | None = None  # [rows, width]
        self._next = 0

    def keep(self, slots: Tensor, layers: Sequence[Tensor]) -> None:
        """Keep the states of one step.

        slots: [tokens], where the KV cache holds them. layers: [tokens, features] of each layer that the
        drafter reads; side by side they are the states.

        Raises:
            ValueError: more tokens than are kept at all.
        """
        from torch import cat

        tokens = len(slots)
        if tokens > ROWS:
            raise ValueError(f"{tokens} tokens in one step, and {ROWS} are kept")
        if self._slots is None or self._states is None:
            self._slots = slots.new_full((ROWS,), NOTHING)
            # Written at once: pages that a process touches for the first time cost a step more than the rest.
            self._states = layers[0].new_zeros((ROWS, sum(layer.shape[-1] for layer in layers)))
        if self._next + tokens > ROWS:
            self._slots[self._next :] = NOTHING
            self._next = 0
        self._slots.narrow(0, self._next, tokens).copy_(slots)
        cat(layers, dim=-1, out=self._states.narrow(0, self._next, tokens))
        self._next += tokens

    def clear(self) -> None:
        """Drop everything that is kept."""
        if self._slots is not None and self._next > 0:
            self._slots.fill_(NOTHING)
            self._next = 0

    def rows(self, slots: Tensor) -> NDArray[np.int64]:
        """The row of each slot, `NOTHING` for one whose states are not kept. Waits for the device.

        slots: [tokens].
        """
        if self._slots is None:
            return np.full(len(slots), NOTHING)
        return newest(self._slots.cpu().numpy(), self._next, slots.cpu().numpy())

    def states(self, rows: NDArray[np.int64]) -> Tensor:
        """[rows, width], of rows that `rows` gave.

        Raises:
            ValueError: nothing was kept yet.
        """
        if self._slots is None or self._states is None:
            raise ValueError("no states are kept")
        return self._states[self._slots.new_tensor(rows)]


def newest(kept: NDArray[np.int64], oldest: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """The newest row of each of these slots; `NOTHING` for a slot that no row holds.

    kept: the slot of each row. oldest: the row that will be written next.
    """
    by_age = np.roll(np.arange(len(kept)), -oldest)
    by_slot = by_age[np.argsort(kept[by_age], kind="stable")]
    rows = by_slot[np.searchsorted(kept[by_slot], slots, side="right") - 1]
    return np.where(kept[rows] == slots, rows, NOTHING)
