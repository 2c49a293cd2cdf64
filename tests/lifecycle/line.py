"""A line to a server that can fall silent, as a network that drops packets: nothing passes, nothing ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Line:
    """Passes bytes on, both ways, unless it is silent."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._passes = asyncio.Event()
        self._passes.set()
        self.port = 0

    def fall_silent(self) -> None:
        """From now on nothing passes, on no connection, old or new."""
        self._passes.clear()

    def heal(self) -> None:
        """What waited passes, and all that follows."""
        self._passes.set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until one side ends it."""
        there = await asyncio.open_connection("127.0.0.1", self._target)
        ways = (self._pass_on(reader, there[1]), self._pass_on(there[0], writer))
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def a_line(target: int) -> AsyncIterator[Line]:
    """One on a port of its own. target: the server's port on this machine."""
    line = Line(target)
    server = await asyncio.start_server(line.connect, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        line.heal()
        server.close()
