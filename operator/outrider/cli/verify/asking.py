"""Asks a model for greedy, structured and sampled answers, with their log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outrider.api.validation_message import first_validation_message
from outrider.cli.common.output import CommandError
from outrider.verify.greedy import Answer, Step
from outrider.verify.structured import TOKENS, Form, StructuredAnswer, ToolCall, request_part

_TOP = 5
_SAMPLES_PER_REQUEST = 20
_TIMEOUT_SECONDS = 300.0
_MAX_COMPLAINT = 300

ViewT = TypeVar("ViewT", bound="_View")
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


class _ChatToken(_View):
    token: str
    logprob: Nats


class _ChatStep(_View):
    token: str
    top_logprobs: Sequence[_ChatToken] = ()


class _ChatLogProbs(_View):
    content: Sequence[_ChatStep]


class _Function(_View):
    name: str
    arguments: str


class _Call(_View):
    function: _Function


class _Message(_View):
    content: str | None = None
    tool_calls: Sequence[_Call] | None = None


class _ChatChoice(_View):
    message: _Message
    logprobs: _ChatLogProbs
    finish_reason: str | None = None


class _Chat(_View):
    choices: Annotated[Sequence[_ChatChoice], Field(min_length=1)]


class _Refusal(_View):
    message: str


class _Refused(_View):
    error: _Refusal


class Declined(CommandError):
    """The engine answers no request of this kind, such as one for tool calls without a parser."""


class Client:
    """The answers of one model at one URL. It raises only `CommandError`."""

    def __init__(self, http: httpx.AsyncClient, url: str, model: str) -> None:
        self._http = http
        self._url = f"{url}/v1/completions"
        self._chat_url = f"{url}/v1/chat/completions"
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

    async def structured(self, form: Form, question: str) -> StructuredAnswer:
        """A greedy answer to a question, in the form that the request demands.

        An internal error of the engine is an answer, too: a defect can end a request.

        Raises:
            Declined: the engine answers no such request.
        """
        body: dict[str, JsonValue] = {
            "model": self._model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": TOKENS,
            "temperature": 0.0,
            "seed": 0,
            "logprobs": True,
            "top_logprobs": _TOP,
            "return_tokens_as_token_ids": True,
            # Templates without that choice ignore it; others would reason past the last token.
            "chat_template_kwargs": {"enable_thinking": False},
            **request_part(form),
        }
        answer = await self._post(self._chat_url, body)
        if answer.is_client_error:
            raise Declined(_complaint(answer))
        if not answer.is_success:
            return StructuredAnswer((), error=f"the engine answers {_complaint(answer)}")
        choice = _read(_Chat, self._chat_url, answer).choices[0]
        calls = choice.message.tool_calls or ()
        return StructuredAnswer(
            [_chat_step(each) for each in choice.logprobs.content],
            choice.message.content or "",
            [ToolCall(call.function.name, call.function.arguments) for call in calls],
            cut=choice.finish_reason == "length",
        )

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
        answer = await self._post(self._url, body)
        if answer.status_code != httpx.codes.OK:
            raise CommandError(f"{self._url} answers {_complaint(answer)}")
        return _read(_Completion, self._url, answer).choices

    async def _post(self, url: str, body: Mapping[str, object]) -> httpx.Response:
        try:
            return await self._http.post(url, json=body, timeout=_TIMEOUT_SECONDS)
        except httpx.HTTPError as error:
            raise CommandError(f"{url} does not answer: {type(error).__name__} {error}") from error


def _read(shape: type[ViewT], url: str, answer: httpx.Response) -> ViewT:
    try:
        return shape.model_validate_json(answer.content)
    except ValidationError as error:
        why = first_validation_message(error, whole="answer")
        raise CommandError(f"{url} answers without log-probabilities in vLLM's form: {why}") from error


def _complaint(answer: httpx.Response) -> str:
    """Status and message, in vLLM's form or as they are."""
    try:
        why = _Refused.model_validate_json(answer.content).error.message
    except ValidationError:
        why = answer.text
    return f"{answer.status_code}: {why[:_MAX_COMPLAINT]}"


def _chat_step(step: _ChatStep) -> Step:
    return Step(step.token, {each.token: each.logprob for each in step.top_logprobs})
