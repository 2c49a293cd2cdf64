"""The table of an engine that was launched without one, so that vLLM kept its full CUDA graphs.

On the V1 runner vLLM gives up full graphs for a table in its configuration. They exist for the K of the
launch alone in any case; steps of another K run piecewise, as do those of a launch with one K in which a
request has fewer drafts. The scheduler is the only reader of the table, and asks for it at every step.
"""

from __future__ import annotations

from outrider_engine.support import EngineFacts, Runner, obstacle

CANDIDATES_VARIABLE = "OUTRIDER_CANDIDATES"
"""Every K that a table may name, such as ``0,1,3``; unset where the launch has a table of its own."""


def lookup_after_launch(facts: EngineFacts, candidates: str | None) -> list[int] | None:
    """The scheduler's lookup with each candidate once, the largest on all batch sizes but the last.

    None without candidates, or where this engine could not follow a table.

    Raises:
        ValueError: they are no list of K for this engine.
    """
    if not candidates or facts.runner is not Runner.V1 or obstacle(facts, has_table=True) is not None:
        return None
    falling = sorted({int(word) for word in candidates.split(",")}, reverse=True)
    largest, widest = facts.num_speculative_tokens, facts.max_num_seqs - len(falling) + 1
    if falling[0] != largest or falling[-1] < 0 or widest < 1:
        raise ValueError(
            f"{CANDIDATES_VARIABLE}={candidates}: up to {facts.max_num_seqs} numbers from 0 to {largest}, "
            "the K of the launch, which has to be among them"
        )
    return [0, *[largest] * widest, *falling[1:]]
