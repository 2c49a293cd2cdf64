"""Hold loads, and measure them in the engine's own time.

Engine time is the played clock of the engine, see `outrider_sglang_cpu.played`. A phase counts tokens of
rounds over the time of all rounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx

from outrider_twin.batch import TEXT
from tests.bench.sglang.engines import CLIENTS
from tests.bench.sglang.plan import Load
from tests.contract.engine import PLAIN, REQUEST_SECONDS, completion_body

TOKENS = 256
"""Of an answer."""
SETTLE_SECONDS = 0.7
"""Engine time of a load in slices of one K, before counting begins."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums of an engine since its start. at: wall seconds. seconds: engine time."""

    at: float
    seconds: float
    tokens: Mapping[str, int]
    rounds: Mapping[str, int]

    def since(self, before: Counts) -> dict[str, object]:
        """What was counted between two moments, by K where it concerns rounds."""
        seconds = self.seconds - before.seconds
        tokens = sum(self.tokens.values()) - sum(before.tokens.values())
        return {
            "wall_seconds": round(self.at - before.at, 3),
            "engine_seconds": round(seconds, 4),
            "tokens": tokens,
            "tokens_per_second": round(tokens / seconds, 2) if seconds else 0.0,
            "rounds": {
                k: count - before.rounds.get(k, 0)
                for k, count in self.rounds.items()
                if count > before.rounds.get(k, 0)
            },
        }


@dataclass
class Client:
    """Closed-loop streams before one engine."""

    url: str
    http: httpx.AsyncClient
    _asked: int = 0
    _streams: list[asyncio.Task[None]] = field(default_factory=list)

    async def counts(self) -> Counts:
        """The sums at this moment."""
        answer = await self.http.get(f"{self.url}/server_info")
        answer.raise_for_status()
        seen = answer.json()["internal_states"][0]["outrider_twin"]
        return Counts(time.monotonic(), seen["seconds"], seen["tokens"], seen["rounds"])

    async def hold(self, load: Load) -> None:
        """Have these streams from here on, in place of those before."""
        await self.stop()
        self._streams = [
            asyncio.create_task(self._stream(load.texts[stream % len(load.texts)], load.streams))
            for stream in range(load.streams)
        ]

    async def stop(self) -> None:
        """End all streams, and with them their requests.

        Raises:
            httpx.HTTPError: a request of a stream failed.
        """
        streams, self._streams = self._streams, []
        for stream in streams:
            stream.cancel()
        for stream in streams:
            with suppress(asyncio.CancelledError):
                await stream
        # A client that is gone leaves its request in the batch for a while.
        (await self.http.post(f"{self.url}/abort_request", json={"abort_all": True})).raise_for_status()

    async def until(self, before: Counts, seconds: float) -> Counts:
        """Wait for so much engine time since a moment; the sums then."""
        while True:
            now = await self.counts()
            left = seconds - (now.seconds - before.seconds)
            if left <= 0:
                return now
            await asyncio.sleep(min(0.5, max(0.02, left)))

    async def _stream(self, text: str, clients: int) -> None:
        while True:
            # A prompt that comes again is answered as before: numbers make each text another.
            self._asked += 1
            named = {"custom_params": {TEXT: text, CLIENTS: clients}}
            body = completion_body(TOKENS, f"{text} {self._asked}: ") | named
            (await self.http.post(f"{self.url}/v1/completions", json=body)).raise_for_status()


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    """Streams that end with the block."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        timeout=REQUEST_SECONDS, trust_env=False, verify=PLAIN, limits=limits
    ) as http:
        found = Client(url, http)
        try:
            yield found
        finally:
            await found.stop()
