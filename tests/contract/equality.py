"""Comparison of the tokens of two runs, up to the noise of a batch."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

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
from tests.contract.measuring import TRIES, scrape

REPORT = Path("out/contract/equality.json")
SLACK = 2.0
"""The largest noise of some thousand tokens is not the largest that there is."""
ALONE = 3
"""Prompts that are also asked alone under each K; that is what takes the time."""


def with_each_k(engine: Engine, term: int, candidates: Sequence[int]) -> Iterator[list[Answer]]:
    """The first few alone and all together, under one constant table after the other."""
    for epoch, k in enumerate(candidates, start=1):
        engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        yield answers_alone(engine, PROMPTS[:ALONE])
        yield answers_together(engine)


def across_changes(
    engine: Engine, term: int, candidates: Sequence[int], prompts: Sequence[str] = PROMPTS
) -> tuple[list[Answer], int]:
    """Together, while the table changes all the time; and the number of changes, each K and one more."""

    def change(number: int) -> None:
        table = a_constant(candidates[number % len(candidates)])
        engine.put(a_push(term=term, epoch=100 + number, schedule=table)).raise_for_status()

    return _answers_while(engine, change, lambda changes: changes > len(candidates), prompts)


def _answers_while(
    engine: Engine,
    change: Callable[[int], None],
    enough: Callable[[int], bool],
    prompts: Sequence[str] = PROMPTS,
) -> tuple[list[Answer], int]:
    """Round after round of answers to all prompts, until so many changes are enough; and their number.

    A busy machine has few changes in one round. change: makes one, by its number.
    """
    answers, rounds = list[Answer](), 0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(answers_together, engine, prompts)
        for changes in count(1):
            change(changes)
            if running.done():
                answers, rounds = answers + running.result(), rounds + 1
                if enough(changes):
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
    write_report(name, figures)
    for token, instead in compared.turns:
        behind = token.behind.get(instead.text, math.inf)
        assert behind <= SLACK * noise, f"{instead} came instead of {token}, and the noise is {noise}"


def write_report(name: str, figures: dict[str, object]) -> None:
    kept = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(kept | {name: figures}, indent=1) + "\n")
    print(name, figures)


def check(engine: Engine, term: int, plain: list[Answer], candidates: Sequence[int], name: str) -> None:
    compared = Comparison((), ())
    for answers in with_each_k(engine, term, candidates):
        compared += compare(plain[: len(answers)], answers)
    changed, changes = across_changes(engine, term, candidates)
    compared += compare(plain, changed)
    assert_equal_up_to_noise(compared, name, changes=changes)


def drafted(engine: Engine, run: Callable[[], None]) -> float:
    before = engine.counter("vllm:spec_decode_num_accepted_tokens_total")
    run()
    return engine.counter("vllm:spec_decode_num_accepted_tokens_total") - before


STEPS = "outrider:fast_loop_steps_total"


def across_choices(engine: Engine, term: int, candidates: Sequence[int]) -> tuple[list[Answer], int]:
    """Together, while the fast loop has another K to choose all the time; and the number of changes.

    Until it chose each of them.
    """
    models = [a_cost_model(engine, sorted({0, k}), per_draft=CHEAP, max_k=k) for k in candidates]
    before, wanted = scrape(engine), {str(k) for k in candidates}

    def change(number: int) -> None:
        push_cost_model(engine, term, number, models[number % len(models)])

    def all_chosen(_: int) -> bool:
        chosen = set((scrape(engine) - before).by(STEPS, "k"))
        assert chosen <= wanted, chosen
        return chosen == wanted

    return _answers_while(engine, change, all_chosen)


def assert_no_token_changes(
    engine: Engine, term: int, plain: list[Answer], candidates: Sequence[int], name: str
) -> None:
    """Against an engine without speculation."""

    def answer_all() -> None:
        answers, changes = across_choices(engine, term, candidates)
        assert_equal_up_to_noise(compare(plain, answers), f"fast_loop_{name}", changes=changes)

    accepted = drafted(engine, answer_all)
    # One round of answers, and a third of its steps at K=0.
    assert accepted > TOKENS / 4, "nothing was speculated, so nothing was compared"
