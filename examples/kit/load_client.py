"""A closed-loop client: N streams, each sends its next request when the last one ends.

First answers have 1/N, 2/N, … of the length. Without drafts every request has the same number of steps. So
streams that begin together would always end together, and the engine would wait for all of them at once.

Runs in a pod on its own (the standard library and httpx), and prints one JSON object per
second:

    {"time": …, "seconds": …, "tokens": n, "requests": n, "failed": n, "errors": ["…"]}

``time`` is in unix seconds, ``seconds`` the time since the line before. ``tokens`` are counted
from the usage that the server adds to every chunk, so a chunk of several accepted tokens counts
as several. Requests in flight at the end are cut off and neither finished nor failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from math import ceil
from pathlib import Path
from typing import TypeVar

import httpx

_Pool = TypeVar("_Pool")

STALLED_SECONDS = 60.0
"""A stream without a chunk for this long has failed."""
PAUSE_AFTER_FAILURE_SECONDS = 0.2
ERRORS_PER_LINE = 3


@dataclass(frozen=True)
class Job:
    """What to send where."""

    url: str  # OpenAI base, such as http://service/v1
    model: str
    streams: int
    seconds: float
    max_tokens: int  # of each answer but the first of a stream; answers never end earlier
    temperature: float
    prompts: tuple[str, ...]
    seed: int = 0
    alternate: tuple[str, ...] = ()  # taken in turn with `prompts`, where there are any
    turn: float | None = None  # seconds of one turn; None: a turn is one request
    context: int = 0  # characters to which a shorter prompt is repeated
    few: int | None = None  # only so many of the prompts, or one for each stream where that is more
    numbered: bool = False  # a prompt ends with the number of the request: no answer comes twice
    body: Mapping[str, object] = field(default_factory=dict)  # fields of each request besides


@dataclass
class Tally:
    """Counts since the last line. Only ever changed without an await in between."""

    tokens: int = 0
    requests: int = 0
    failed: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def line(self, seconds: float) -> str:
        """One line of output. `seconds`: the time that these counts took."""
        errors = [f"{text} (x{count})" for text, count in self.errors.most_common(ERRORS_PER_LINE)]
        counts = {"tokens": self.tokens, "requests": self.requests, "failed": self.failed}
        return json.dumps({"time": time.time(), "seconds": seconds, **counts, "errors": errors})


class RequestFailed(Exception):
    """The server answered, but not with a whole completion."""


async def run(job: Job, client: httpx.AsyncClient, *, period_seconds: float = 1.0) -> None:
    """Keep `job.streams` requests in flight for `job.seconds`; print one line per period."""
    reporter = _Reporter()
    prompts = _prompts(job)
    firsts = [ceil(job.max_tokens * place / job.streams) for place in range(1, job.streams + 1)]
    streams = [asyncio.create_task(_stream(job, client, prompts, reporter, first)) for first in firsts]
    end = time.monotonic() + job.seconds
    while (left := end - time.monotonic()) > 0:
        # A late line does not make the next one short: its rate would mean nothing.
        await asyncio.wait(streams, timeout=min(period_seconds, left), return_when=asyncio.FIRST_EXCEPTION)
        for stream in streams:
            if stream.done():
                stream.result()
        reporter.report()
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


class _Reporter:
    def __init__(self) -> None:
        self._since = time.monotonic()
        self.tally = Tally()

    def report(self) -> None:
        now = time.monotonic()
        print(self.tally.line(now - self._since), flush=True)
        self._since, self.tally = now, Tally()


async def _stream(
    job: Job, client: httpx.AsyncClient, prompts: Iterator[str], reporter: _Reporter, tokens: int
) -> None:
    """tokens: of its first answer."""
    while True:
        try:
            await _complete(job, client, next(prompts), tokens, reporter)
        except (httpx.HTTPError, RequestFailed) as error:
            reporter.tally.failed += 1
            reporter.tally.errors[_told(error)[:200]] += 1
            await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
        else:
            reporter.tally.requests += 1
            tokens = job.max_tokens


def _told(error: BaseException) -> str:
    """With what lies at the bottom of it: a failed connection says only there whether it was refused."""
    bottom = error
    while bottom.__cause__ or bottom.__context__:
        bottom = bottom.__cause__ or bottom.__context__ or bottom
    text = f"{type(error).__name__}: {error}"
    return text if bottom is error or str(bottom) in text else f"{text}: {bottom}"


async def _complete(
    job: Job, client: httpx.AsyncClient, prompt: str, tokens: int, reporter: _Reporter
) -> None:
    """One streamed completion; raises RequestFailed unless it arrives whole."""
    body = {
        **job.body,
        "model": job.model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": job.temperature,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    counted = 0
    async with client.stream("POST", f"{job.url}/completions", json=body) as response:
        if response.status_code != httpx.codes.OK:
            text = (await response.aread()).decode(errors="replace")
            raise RequestFailed(f"HTTP {response.status_code} {text}")
        async for data in _events(response):
            if data == "[DONE]":
                break
            total = _completion_tokens(data)
            if total is not None:
                reporter.tally.tokens += total - counted
                counted = total
        else:
            raise RequestFailed("the stream ended early")
    if counted != tokens:
        raise RequestFailed(f"{counted} of {tokens} tokens")


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def _completion_tokens(data: str) -> int | None:
    """Tokens of this answer so far; None in a chunk without usage."""
    chunk = json.loads(data)
    if "error" in chunk:
        raise RequestFailed(str(chunk["error"]))
    usage = chunk.get("usage")
    return None if usage is None else int(usage["completion_tokens"])


def _prompts(job: Job) -> Iterator[str]:
    most = None if job.few is None else max(job.few, job.streams)
    pools = [_shuffled(pool[:most], job.seed) for pool in (job.prompts, job.alternate) if pool]
    order = cycle(pools) if job.turn is None else by_turns(pools, job.turn)
    for number, pool in enumerate(order, start=1):
        prompt = _repeated(next(pool), job.context)
        yield f"{prompt}\n# {number:06d}\n" if job.numbered else prompt


def by_turns(
    pools: Sequence[_Pool], seconds: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[_Pool]:
    """Each pool for so many seconds, again and again. The first turn begins with the first prompt."""
    began = clock()
    while True:
        yield pools[int((clock() - began) / seconds) % len(pools)]


def _repeated(prompt: str, length: int) -> str:
    """A prompt that is long enough stays as it is."""
    return (prompt * ceil(length / len(prompt)))[:length] if length > len(prompt) else prompt


def _shuffled(prompts: tuple[str, ...], seed: int) -> Iterator[str]:
    """All prompts in random order, again and again."""
    chooser = random.Random(seed)
    while True:
        yield from chooser.sample(prompts, len(prompts))


def _job_from_command_line() -> Job:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--prompts", type=Path, required=True, help="a JSON list of strings")
    parser.add_argument("--alternate", type=Path, help="another one, taken in turn with it")
    parser.add_argument("--turn", type=float, help="seconds of one turn; without it a turn is one request")
    parser.add_argument("--context", type=int, default=0, help="repeat shorter prompts to this length")
    parser.add_argument("--few", type=int, help="go through so many of the prompts, at least one a stream")
    parser.add_argument("--numbered", action="store_true", help="end each prompt with the request's number")
    parser.add_argument("--body", type=json.loads, default={}, help="a JSON object: more fields of requests")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = vars(parser.parse_args())
    prompts = _read(arguments.pop("prompts"))
    return Job(prompts=prompts, alternate=_read(arguments.pop("alternate")), **arguments)


def _read(path: Path | None) -> tuple[str, ...]:
    return () if path is None else tuple(json.loads(path.read_text()))


async def _main() -> None:
    job = _job_from_command_line()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=httpx.Timeout(STALLED_SECONDS), limits=limits) as client:
        await run(job, client)


if __name__ == "__main__":
    asyncio.run(_main())
