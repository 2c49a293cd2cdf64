"""Greedy answers token by token, with how sure the model was of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle

from tests.contract.engine import Engine, completion_body

TOKENS = 64
RANKED = 5
"""Number of probable tokens returned with each token: more than ever lie within the noise."""
PROMPTS = (
    "def main(argv):\n    ",
    "class Table:\n    def __init__(self, rows):\n        self.rows = rows\n\n    def ",
    "import os\nimport sys\n\nfor path in sys.path:\n    ",
    "try:\n    value = int(text)\nexcept ValueError",
    "The engine keeps the table until ",
    "one two three one two three one two three ",
    "return [x for x in values if x is not None]\n\n\ndef ",
    "# A comment about the next function\n",
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer.

    behind: by how much the log-probabilities of the next best tokens fall behind its own.
    """

    text: str
    behind: Mapping[str, float]

    @property
    def lead(self) -> float:
        """Over the runner-up."""
        return min(self.behind.values())


Answer = tuple[Token, ...]


def answer(engine: Engine, prompt: str, *, tokens: int = TOKENS, **more: object) -> Answer:
    """The greedy answer to one prompt. more: fields of the request."""
    body = completion_body(tokens, prompt) | {"logprobs": RANKED, "return_tokens_as_token_ids": True} | more
    with engine.client() as client:
        response = client.post("/v1/completions", json=body)
    response.raise_for_status()
    logprobs = response.json()["choices"][0]["logprobs"]
    return tuple(map(read_token, logprobs["tokens"], logprobs["top_logprobs"]))


def read_token(token: str, ranked: dict[str, float]) -> Token:
    """``ranked`` holds the most probable tokens; the token is one of them, as it was chosen greedily."""
    return Token(
        token, {other: ranked[token] - logprob for other, logprob in ranked.items() if other != token}
    )


def answers_alone(engine: Engine, prompts: Sequence[str] = PROMPTS) -> list[Answer]:
    """Each prompt as the only request of the engine."""
    return [answer(engine, prompt) for prompt in prompts]


def answers_together(
    engine: Engine,
    prompts: Sequence[str] = PROMPTS,
    fields: Sequence[Mapping[str, object]] = (),
    *,
    tokens: int = TOKENS,
) -> list[Answer]:
    """All prompts at once. fields: more fields of each request."""
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = (
            pool.submit(answer, engine, prompt, tokens=tokens, **more)
            for prompt, more in zip(prompts, fields or [{}] * len(prompts), strict=True)
        )
        return [one.result() for one in list(answers)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Answers against the plain ones, as far as they had the same tokens before.

    noise: by how much the lead of a token moved, for each token that both have.
    turns: the first differing token of each answer that differs, as it is in the plain answer, and the
        token that came instead.
    """

    noise: tuple[float, ...]
    turns: tuple[tuple[Token, Token], ...]

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(self.noise + other.noise, self.turns + other.turns)


def compare(plain: Sequence[Answer], others: Sequence[Answer]) -> Comparison:
    """All pairs of answers to the same prompts. others: one round of them, or several."""
    assert others
    assert len(others) % len(plain) == 0
    result = Comparison((), ())
    for one, other in zip(cycle(plain), others, strict=False):
        same = next(
            (i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a.text != b.text), len(one)
        )
        noise = tuple(abs(a.lead - b.lead) for a, b in zip(one[:same], other[:same], strict=True))
        result += Comparison(noise, ((one[same], other[same]),) if same < len(one) else ())
    return result
