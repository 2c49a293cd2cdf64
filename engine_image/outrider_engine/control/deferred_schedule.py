"""The schedule of an engine that was launched without one, so that vLLM kept its full CUDA graphs.

On the V1 runner vLLM drops full graphs for a schedule in its configuration. They exist for the K of the
launch only. Steps of another K run piecewise, and so do steps in which a request has fewer drafts. Only the
scheduler reads the schedule, at every step.
"""

from __future__ import annotations

from outrider_engine.control.support import EngineFacts, obstacle
from outrider_protocol.releases import Runner

CANDIDATES_VARIABLE = "OUTRIDER_CANDIDATES"
"""Every K that a schedule may have, such as ``0,1,3``; unset where the launch has its own schedule."""


def lookup_after_launch(facts: EngineFacts, candidates: str | None) -> list[int] | None:
    """The scheduler's lookup with each candidate once, the maximum on all other batch sizes.

    None without candidates, or where this engine cannot change K.

    Raises:
        ValueError: the candidates are not a list of K for this engine.
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
