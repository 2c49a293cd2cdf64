"""The numbers in ``spec.engine.args`` that the operator reckons with, and vLLM's defaults for them."""

from __future__ import annotations

from outrider.api.drafting import MAX_BATCH_SIZE
from outrider.runtimes.flag_values import own_number, own_share, own_value
from outrider.runtimes.runtime import Args

SMALLEST_DEFAULT_BATCH, USUAL_DEFAULT_BATCH, MAX_DEFAULT_BATCH = 128, 256, 1024
"""vLLM's own ``max-num-seqs``: on a CPU, on most GPUs, on large ones. From source."""

_LARGE_GPU = 70 * 2**30
_SMALL_ALL_THE_SAME = ("a100", "gb10")
"""In the names of GPUs that have the memory of a large one and not its arithmetic; from source, 0.33."""

SHARE_OF_VLLM = 0.92
"""vLLM's own default. From source."""

SHUTDOWN_TIMEOUT = 50
"""Seconds that requests may still run when a pod ends; vLLM's default cuts them off at once."""

MAX_SHUTDOWN = 86_400
"""Seconds; no request runs longer than a day."""

MAX_TOKEN_BUDGET = 100_000_000
"""Tokens in one step; as many as the longest context may have."""


def max_num_seqs(own: Args) -> int | None:
    """The largest batch of an engine, from ``spec.engine.args``; None where it is left to vLLM.

    Raises:
        ValueError: not a whole number from 1 to `MAX_BATCH_SIZE`.
    """
    return own_number(own, "max-num-seqs", least=1, most=MAX_BATCH_SIZE)


def default_max_num_seqs(gpu: str, memory_bytes: float) -> int:
    """What vLLM takes on a GPU of this name and memory where nothing is said."""
    small = any(part in gpu.lower() for part in _SMALL_ALL_THE_SAME)
    return MAX_DEFAULT_BATCH if memory_bytes >= _LARGE_GPU and not small else USUAL_DEFAULT_BATCH


def batch_on_every_machine(own: Args) -> int:
    """A batch that an engine with these arguments can have wherever it starts.

    Raises:
        ValueError: as `max_num_seqs` and `max_num_batched_tokens`.
    """
    limit, budget = max_num_seqs(own), max_num_batched_tokens(own)
    if limit is not None:
        return limit
    # vLLM's default is no larger than its token budget.
    return SMALLEST_DEFAULT_BATCH if budget is None else min(SMALLEST_DEFAULT_BATCH, budget)


def max_num_batched_tokens(own: Args) -> int | None:
    """The token budget of one step from ``spec.engine.args``; None where it is left to vLLM.

    vLLM also takes forms such as 8k, which stay its own business.

    Raises:
        ValueError: a whole number, and not one from 1 to `MAX_TOKEN_BUDGET`.
    """
    flag = "max-num-batched-tokens"
    value = own_value(own, flag)
    spelled_out = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
    return own_number(own, flag, least=1, most=MAX_TOKEN_BUDGET) if spelled_out else None


def shutdown_timeout(own: Args) -> int:
    """Seconds that requests may still run when a pod ends, from ``spec.engine.args`` or the default.

    Raises:
        ValueError: not a whole number of seconds up to `MAX_SHUTDOWN`.
    """
    seconds = own_number(own, "shutdown-timeout", least=0, most=MAX_SHUTDOWN)
    return SHUTDOWN_TIMEOUT if seconds is None else seconds


def gpu_memory_share(own: Args) -> float:
    """Ratio of each GPU's memory that vLLM takes, from ``spec.engine.args`` or the default.

    Raises:
        ValueError: not a number above 0, up to 1.
    """
    return own_share(own, "gpu-memory-utilization") or SHARE_OF_VLLM
