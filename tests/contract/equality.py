"""Comparison of the tokens of two runs, up to the noise of a batch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from tests.contract.answers import (
    PROMPTS,
    TOKENS,
    Answer,
    Comparison,
    answers_alone,
    answers_together,
    compare,
)
from tests.contract.engine import Engine
from tests.contract.factories import a_constant, a_push
from tests.contract.fast_loops import CHEAP, a_cost_model, push_cost_model
from tests.contract.measuring import TRIES, Samples, scrape

SLACK = 2.0
"""The largest noise of some thousand tokens is not the largest that there is."""
ALONE = 3
"""Prompts that are also asked alone under each K; that is what takes the time."""
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"

Enough = Callable[[Samples], bool]
"""Whether what was counted shows that the case which a test is about occurred."""


def with_each_k(engine: Engine, term: int, candidates: Sequence[int]) -> Iterator[list[Answer]]:
    """The first few alone and all together, under one constant table after the other."""
    for epoch, k in enumerate(candidates, start=1):
        engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        yield answers_alone(engine, PROMPTS[:ALONE])
        yield answers_together(engine)


def accepted_more_than(tokens: float) -> Enough:
    return lambda counted: counted.total(ACCEPTED) > tokens


ANY_ACCEPTED, MANY_ACCEPTED = accepted_more_than(0), accepted_more_than(TOKENS / 4)


def across_changes(
    engine: Engine,
    term: int,
    candidates: Sequence[int],
    prompts: Sequence[str] = PROMPTS,
    *,
    enough: Enough = ANY_ACCEPTED,
) -> tuple[list[Answer], int]:
    """Together, while the table changes all the time; and the number of changes.

    Each K and one more, and then until enough was counted.
    """

    def change(number: int) -> None:
        table = a_constant(candidates[number % len(candidates)])
        engine.put(a_push(term=term, epoch=100 + number, schedule=table)).raise_for_status()

    def each_k_and_enough(changes: int, counted: Samples) -> bool:
        return changes > len(candidates) and enough(counted)

    return _answers_while(engine, change, each_k_and_enough, prompts)


def _answers_while(
    engine: Engine,
    change: Callable[[int], None],
    enough: Callable[[int, Samples], bool],
    prompts: Sequence[str] = PROMPTS,
) -> tuple[list[Answer], int]:
    """Round after round of answers to all prompts, until enough was counted; and the number of changes.

    A busy machine has few changes in one round. change: makes one, by its number.
    enough: from the number of changes and what was counted.
    """
    answers, rounds, before = list[Answer](), 0, scrape(engine)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(answers_together, engine, prompts)
        for changes in count(1):
            change(changes)
            if running.done():
                answers, rounds = answers + running.result(), rounds + 1
                if enough(changes, scrape(engine) - before):
                    return answers, changes
                assert rounds < TRIES, f"{changes} changes in {rounds} rounds were not enough"
                running = pool.submit(answers_together, engine, prompts)
    raise AssertionError("unreachable")


def assert_equal_up_to_noise(compared: Comparison, name: str, **figures: object) -> None:
    noise = max(compared.noise)
    leads = [token.lead for token, _ in compared.turns]
    figures |= {
        "tokens_compared": len(compared.noise),
        "noise_max": round(noise, 6),
        "noise_median": round(statistics.median(compared.noise), 6),
        "turns": len(leads),
        "largest_lead_at_a_turn": round(max(leads, default=0.0), 6),
    }
    print(name, figures)
    for token, instead in compared.turns:
        behind = token.behind.get(instead.text, math.inf)
        assert behind <= SLACK * noise, f"{instead} came instead of {token}, and the noise is {noise}"


def check(
    engine: Engine,
    term: int,
    plain: list[Answer],
    candidates: Sequence[int],
    name: str,
    *,
    enough: Enough = ANY_ACCEPTED,
) -> None:
    """Under each K, and while K changes until enough was counted."""
    compared, before = Comparison((), ()), engine.counter(ACCEPTED)
    for answers in with_each_k(engine, term, candidates):
        compared += compare(plain[: len(answers)], answers)
    changed, changes = across_changes(engine, term, candidates, enough=enough)
    compared += compare(plain, changed)
    assert_equal_up_to_noise(compared, name, changes=changes)
    assert engine.counter(ACCEPTED) - before > TOKENS, "nothing was speculated, so nothing was compared"


STEPS = "outrider:fast_loop_steps_total"


def across_choices(engine: Engine, term: int, candidates: Sequence[int]) -> tuple[list[Answer], int]:
    """Together, while the fast loop has another K to choose all the time; and the number of changes.

    Until it chose each of them, and many drafts were accepted.
    """
    models = [a_cost_model(engine, sorted({0, k}), per_draft=CHEAP, max_k=k) for k in candidates]
    wanted = {str(k) for k in candidates}

    def change(number: int) -> None:
        push_cost_model(engine, term, number, models[number % len(models)])

    def all_chosen(_: int, counted: Samples) -> bool:
        chosen = set(counted.by(STEPS, "k"))
        assert chosen <= wanted, chosen
        return chosen == wanted and MANY_ACCEPTED(counted)

    return _answers_while(engine, change, all_chosen)


def assert_no_token_changes(
    engine: Engine, term: int, plain: list[Answer], candidates: Sequence[int], name: str
) -> None:
    """Against an engine without speculation."""
    answers, changes = across_choices(engine, term, candidates)
    assert_equal_up_to_noise(compare(plain, answers), f"fast_loop_{name}", changes=changes)
