"""Asks a model for greedy and for sampled answers, with their log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outrider.api.validation_message import first_validation_message
from outrider.cli.common.output import CommandError
from outrider.verify.greedy import Answer, Step

_TOP = 5
_SAMPLES_PER_REQUEST = 20
_TIMEOUT_SECONDS = 300.0
_MAX_COMPLAINT = 300

Nats = Annotated[float, Field(allow_inf_nan=False)]


class _View(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _LogProbs(_View):
    tokens: Sequence[str]
    top_logprobs: Sequence[Mapping[str, Nats] | None]


class _Choice(_View):
    logprobs: _LogProbs


class _Completion(_View):
    choices: Annotated[Sequence[_Choice], Field(min_length=1)]


class Client:
    """The completions of one model at one URL. It raises only `CommandError`."""

    def __init__(self, http: httpx.AsyncClient, url: str, model: str) -> None:
        self._http = http
        self._url = f"{url}/v1/completions"
        self._model = model

    async def greedy(self, prompt: str, *, tokens: int) -> Answer:
        """A greedy answer of this many tokens, also past an end mark."""
        found = await self._ask(prompt, tokens=tokens, temperature=0.0, n=1, seed=0)
        said = found[0].logprobs
        return [Step(token, top or {}) for token, top in zip(said.tokens, said.top_logprobs, strict=True)]

    async def sampled(self, prompt: str, *, tokens: int, samples: int, seed: int) -> list[tuple[str, ...]]:
        """Tokens of this many answers at temperature 1. seed: another seed gives other answers."""
        answers: list[tuple[str, ...]] = []
        while len(answers) < samples:
            n = min(_SAMPLES_PER_REQUEST, samples - len(answers))
            # The server may count on from the seed for each answer of a request.
            found = await self._ask(prompt, tokens=tokens, temperature=1.0, n=n, seed=seed + len(answers))
            answers += [tuple(choice.logprobs.tokens) for choice in found]
        return answers

    async def _ask(
        self, prompt: str, *, tokens: int, temperature: float, n: int, seed: int
    ) -> Sequence[_Choice]:
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": temperature,
            "n": n,
            "seed": seed,
            "logprobs": _TOP,
            "ignore_eos": True,
            # Several tokens may have the same text, such as parts of one character.
            "return_tokens_as_token_ids": True,
        }
        try:
            answer = await self._http.post(self._url, json=body, timeout=_TIMEOUT_SECONDS)
        except httpx.HTTPError as error:
            raise CommandError(f"{self._url} does not answer: {type(error).__name__} {error}") from error
        if answer.status_code != httpx.codes.OK:
            why = answer.text[:_MAX_COMPLAINT]
            raise CommandError(f"{self._url} answers {answer.status_code}: {why}")
        try:
            return _Completion.model_validate_json(answer.content).choices
        except ValidationError as error:
            why = first_validation_message(error, whole="answer")
            raise CommandError(
                f"{self._url} answers without log-probabilities in vLLM's form: {why}"
            ) from error
