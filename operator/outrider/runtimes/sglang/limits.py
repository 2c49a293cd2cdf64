"""The numbers in ``spec.engine.args`` that the operator reckons with, and SGLang's defaults for them."""

from __future__ import annotations

from outrider.api.drafting import MAX_BATCH_SIZE
from outrider.runtimes.flag_values import own_number
from outrider.runtimes.runtime import Args

DEFAULT_BATCH = 48
"""SGLang's own ``max-running-requests`` with speculation. Source: ``_handle_eagle_family`` and its
siblings in ``arg_groups/speculative_hook.py``."""


def max_num_seqs(own: Args) -> int | None:
    """The largest batch of an engine; None where it is left to SGLang.

    Raises:
        ValueError: not a whole number from 1 to `MAX_BATCH_SIZE`; the message names the field.
    """
    return own_number(own, "max-running-requests", least=1, most=MAX_BATCH_SIZE)


def largest_batch(own: Args) -> int:
    """The largest batch that an engine may have.

    Raises:
        ValueError: as `max_num_seqs`.
    """
    return max_num_seqs(own) or DEFAULT_BATCH
