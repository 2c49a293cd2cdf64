"""The load client against an OpenAI server with scripted answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import Any

import httpx
import pytest

from examples.kit.load_client import Job, by_turns, run

ANSWER_TOKENS = 6
HALF_OF_A_FIRST_ANSWER = 3
"""Of two streams the one begins with half an answer."""
TRIES_SECONDS = (0.05, 0.5, 5.0)
"""How long a load lasts, until it was long enough for what a test looks at."""

Line = dict[str, Any]


class Stream(httpx.AsyncByteStream):
    def __init__(self, events: Sequence[str], *, then_hang: bool = False) -> None:
        self.events, self.then_hang = events, then_hang

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self.events:
            await asyncio.sleep(0)
            yield f"data: {event}\n\n".encode()
        if self.then_hang:
            await asyncio.Event().wait()


def chunk(completion_tokens: int) -> str:
    return json.dumps({"choices": [], "usage": {"completion_tokens": completion_tokens}})


Answer = Callable[[int], httpx.Response]
"""To a request for so many tokens."""


def whole(tokens: int) -> httpx.Response:
    chunks = [chunk(0), chunk(1), chunk(max(1, tokens - 2)), chunk(tokens)]
    return httpx.Response(200, stream=Stream([*chunks, "[DONE]"]))


def streamed(events: Sequence[str], *, then_hang: bool = False) -> Answer:
    return lambda _: httpx.Response(200, stream=Stream(events, then_hang=then_hang))


async def lines_of(
    response: Answer, capsys: pytest.CaptureFixture[str], enough: Callable[[list[Line]], bool]
) -> list[Line]:
    """Of the first load that was long enough, or of the longest."""
    lines = list[Line]()
    for seconds in TRIES_SECONDS:
        await _run_two_streams(response, seconds)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        if enough(lines):
            break
    return lines


async def _run_two_streams(response: Answer, seconds: float) -> None:
    job = Job("http://engine/v1", "tiny", 2, seconds, ANSWER_TOKENS, 0.0, ("a", "b"))

    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        return response(json.loads(request.content)["max_tokens"])

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await run(job, client)


def total(lines: list[Line], key: str) -> int:
    return sum(line[key] for line in lines)


async def test_tokens_are_counted_from_usage_and_not_from_chunks(capsys: pytest.CaptureFixture[str]) -> None:
    lines = await lines_of(whole, capsys, lambda lines: total(lines, "requests") > 0)
    finished = total(lines, "requests")
    assert finished > 0
    assert total(lines, "tokens") >= finished * ANSWER_TOKENS - HALF_OF_A_FIRST_ANSWER
    assert total(lines, "tokens") <= (finished + 2) * ANSWER_TOKENS
    assert total(lines, "failed") == 0


async def test_tokens_of_an_answer_that_is_cut_off_at_the_end_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    response = streamed([chunk(3)], then_hang=True)
    lines = await lines_of(response, capsys, lambda lines: total(lines, "tokens") >= 6)
    assert (total(lines, "tokens"), total(lines, "requests"), total(lines, "failed")) == (6, 0, 0)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (lambda _: httpx.Response(503, text="overloaded"), "HTTP 503 overloaded"),
        (streamed([chunk(3)]), "the stream ended early"),
        (streamed([chunk(2), "[DONE]"]), "2 of 3 tokens"),
        (streamed([json.dumps({"error": "out of memory"})]), "out of memory"),
    ],
    ids=["refused", "ends early", "too short", "error in the stream"],
)
async def test_a_broken_answer_is_a_failure_with_a_name(
    response: Answer, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = await lines_of(response, capsys, lambda lines: total(lines, "failed") >= 2)
    assert total(lines, "failed") >= 2
    assert total(lines, "requests") == 0
    assert error in lines[0]["errors"][0]


async def test_streams_that_begin_together_do_not_end_together() -> None:
    sent = await bodies_of(("a",), enough=4, streams=3)
    asked = [body["max_tokens"] for body in sent]
    firsts, rest = asked[:3], set(asked[3:])
    assert (firsts, rest) == ([2, 4, 6], {6})


async def bodies_of(prompts: tuple[str, ...], *, enough: int = 2, **options: Any) -> list[dict[str, Any]]:
    """What one stream sends, in the first load that has so many requests, or in the longest."""
    sent: list[dict[str, Any]] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        await asyncio.sleep(0)
        return whole(sent[-1]["max_tokens"])

    fields: dict[str, Any] = {
        "url": "http://engine/v1",
        "model": "tiny",
        "streams": 1,
        "max_tokens": ANSWER_TOKENS,
    }
    for seconds in TRIES_SECONDS:
        sent.clear()
        job = Job(**{**fields, **options}, temperature=0.0, prompts=prompts, seconds=seconds)
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            await run(job, client)
        if len(sent) >= enough:
            break
    return sent


async def test_two_kinds_of_prompts_are_sent_in_turn() -> None:
    sent = [body["prompt"] for body in await bodies_of(("a", "b"), alternate=("1",))]
    assert len(sent) >= 2
    assert all(prompt.isalpha() for prompt in sent[::2])
    assert all(prompt.isdigit() for prompt in sent[1::2])


def test_prompts_by_turns_change_with_the_time_for_all_streams() -> None:
    times = iter([100.0, 100.0, 103.9, 104.0, 107.9, 108.0])
    assert list(islice(by_turns("ab", 4.0, clock=lambda: next(times)), 5)) == list("aabba")


async def test_a_prompt_is_repeated_to_the_length_of_the_context() -> None:
    assert (await bodies_of(("abc",), context=7))[0]["prompt"] == "abcabca"
    assert (await bodies_of(("abc",), context=2))[0]["prompt"] == "abc"


async def test_a_numbered_prompt_never_comes_twice_and_begins_as_the_others() -> None:
    sent = [body["prompt"] for body in await bodies_of(("abc",), numbered=True)]
    assert sent[:2] == ["abc\n# 000001\n", "abc\n# 000002\n"]
    assert len(set(sent)) == len(sent)
