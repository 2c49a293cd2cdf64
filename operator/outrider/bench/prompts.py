"""Prompts for a bench whose user names no file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

_LINES = 20_000
"""More lines than one measurement needs; GuideLLM ends where its prompts end."""

BUILT_IN = (
    "Write a Python function that merges two sorted lists without sorting again.",
    "Write a SQL query that lists customers who ordered in May but not in June.",
    "Explain to a new colleague how a hash map finds a key.",
    "Write unit tests for a function that parses dates like 2026-01-31.",
    "Summarise in three sentences why leaves change their colour in autumn.",
    "A train leaves at 9:40 and travels 210 km at 84 km/h. When does it arrive? Show each step.",
    "Translate into French: The meeting was moved to Thursday because the room is taken.",
    "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "List the steps to replace a flat bicycle tyre, and what tools are needed.",
    "Write a polite e-mail that asks a supplier for a delayed invoice.",
    "Compare renting and buying a flat for a family that moves every four years.",
    "Write a shell script that keeps the ten newest files of a folder and deletes the rest.",
    "What should be checked before a database is upgraded in production?",
    "Describe the water cycle for a class of ten-year-olds.",
    "Rewrite this in plain words: The aforementioned party shall indemnify the undersigned.",
    "Write a TypeScript type for a shopping cart with discounts, and a function that totals it.",
)


def lines(prompts: Sequence[str], *, of_slice: int = 0) -> Iterator[str]:
    """A JSON object per line, with the prompts in turn. A number in front makes each prompt unique.

    of_slice: the number of the measurement, so that two measurements have different prompts.
    """
    first = of_slice * _LINES + 1
    # Each prompt is spelled once; the number before it is the same in JSON.
    spelled = [json.dumps(prompt).removeprefix('"') for prompt in prompts]
    for number, prompt in enumerate(islice(cycle(spelled), _LINES), start=first):
        yield f'{{"prompt": "Request {number}. {prompt}}}'
