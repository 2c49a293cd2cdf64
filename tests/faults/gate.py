"""Faults in force before a server, and what was asked of it. One server's requests go through one gate."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from tests.faults.faults import OF_WATCHES, Armed, Call, Effect, Fault

_LOOK_SECONDS = 0.05
"""Between two looks whether a fault that holds an answer is lifted."""

Forward = Callable[[], Awaitable[web.StreamResponse]]
"""Asks the server."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A call as it went. at: unix seconds. status: 0 where the operator got no answer."""

    call: Call
    at: float
    status: int


class Gate:
    """Lets calls through as its faults allow. Any thread may arm and lift faults.

    kill: ends the operator at once.
    """

    def __init__(self, kill: Callable[[], None] = lambda: None) -> None:
        self._kill = kill
        self._armed: tuple[Armed, ...] = ()
        self._first: dict[str, tuple[int, bytes]] = {}
        self.calls: list[Seen] = []

    def arm(self, fault: Fault) -> Armed:
        """Let a fault be in force until `lift`."""
        armed = Armed(fault)
        self._armed = (*self._armed, armed)
        return armed

    def lift(self, armed: Armed) -> None:
        """End it; what it holds continues."""
        self._armed = tuple(each for each in self._armed if each is not armed)

    def lift_all(self) -> None:
        """End every fault."""
        self._armed = ()

    @contextmanager
    def under(self, *faults: Fault) -> Iterator[list[Armed]]:
        """In the block they are in force."""
        armed = [self.arm(fault) for fault in faults]
        try:
            yield armed
        finally:
            for each in armed:
                self.lift(each)

    async def answer(self, request: web.Request, call: Call, forward: Forward) -> web.StreamResponse:
        """What the operator gets. forward: asks the server."""
        status = 0
        try:
            response = await self._answer(request, call, forward)
            status = 0 if request.transport is None or request.transport.is_closing() else response.status
            return response
        finally:
            self.calls.append(Seen(call, time.time(), status))

    async def _answer(self, request: web.Request, call: Call, forward: Forward) -> web.StreamResponse:
        struck = self._struck(call, of_watches=False)
        if struck is None:
            return self._kept(request, call, await forward())
        fault = struck.fault
        match fault.effect:
            case Effect.KILL_BEFORE:
                self._kill()
                return cut(request)
            case Effect.KILL_AFTER:
                await forward()
                self._kill()
                return cut(request)
            case Effect.LOSE_REPLY:
                await forward()
                return cut(request)
            case Effect.CUT:
                return cut(request)
            case Effect.STATUS:
                return _refusal(fault)
            case Effect.GARBAGE:
                return web.Response(body=b"<html>\x00 busy", content_type="text/html")
            case Effect.TRUNCATE:
                await _send_half(request, await forward())
                return cut(request)
            case Effect.HANG:
                await _send_half(request, await forward())
                await self.until_lifted(struck)
                return cut(request)
            case Effect.REWRITE:
                return _rewritten(await forward(), fault.rewrite)
            case Effect.OLD if not call.name and (first := self._first.get(request.path_qs)) is not None:
                return web.Response(status=first[0], body=first[1], content_type="application/json")
            case Effect.DELAY:
                await asyncio.sleep(fault.seconds)
            case Effect.FREEZE:
                await self.until_lifted(struck)
            case _:
                pass
        return self._kept(request, call, await forward())

    def _kept(self, request: web.Request, call: Call, response: web.StreamResponse) -> web.StreamResponse:
        if call.method == "GET" and isinstance(response, web.Response) and isinstance(response.body, bytes):
            self._first.setdefault(request.path_qs, (response.status, response.body))
        return response

    def _struck(self, call: Call, *, of_watches: bool) -> Armed | None:
        fitting = (each for each in self._armed if (each.fault.effect in OF_WATCHES) == of_watches)
        return next((each for each in fitting if each.strikes(call)), None)

    def watch(self, call: Call) -> Watch:
        """The faults of one watch."""
        return Watch(self, call)

    async def of_event(self, call: Call) -> Fault | None:
        """The fault of the next event of a watch; it waits as long as watches are silent."""
        struck = self._struck(call, of_watches=True)
        if struck is not None and struck.fault.effect is Effect.SILENT:
            await self.until_lifted(struck)
        return None if struck is None else struck.fault

    async def until_lifted(self, armed: Armed) -> None:
        """Wait for the end of a fault."""
        while armed in self._armed:
            await asyncio.sleep(_LOOK_SECONDS)


class Watch:
    """One watch of the operator."""

    def __init__(self, gate: Gate, call: Call) -> None:
        self._gate = gate
        self._call = call
        self._held: list[bytes] = []
        self.ended = False
        """Whether a fault ends it."""

    async def take(self, line: bytes) -> list[bytes]:
        """What the operator gets when the server delivers an event. line: the event."""
        fault = await self._gate.of_event(self._call)
        match None if fault is None else fault.effect:
            case Effect.DROP_EVENT:
                return []
            case Effect.DUPLICATE_EVENT:
                return [line, line]
            case Effect.SWAP_EVENTS if not self._held:
                self._held = [line]
                return []
            case Effect.ERROR_EVENT:
                assert fault is not None
                self.ended = True
                return [_error_event(fault.status)]
            case _:
                held, self._held = self._held, []
                return [line, *held]


def cut(request: web.Request) -> web.Response:
    """End the connection; what is returned never arrives."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


def _body(answer: web.StreamResponse) -> bytes:
    return answer.body if isinstance(answer, web.Response) and isinstance(answer.body, bytes) else b""


async def _send_half(request: web.Request, answer: web.StreamResponse) -> None:
    body = _body(answer)
    response = web.StreamResponse(status=answer.status, headers={"Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])


def _rewritten(answer: web.StreamResponse, rewrite: Callable[[bytes], bytes]) -> web.Response:
    return web.Response(status=answer.status, body=rewrite(_body(answer)), content_type=answer.content_type)


def _status(code: int) -> dict[str, object]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "a fault"}


def _refusal(fault: Fault) -> web.Response:
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return web.json_response(_status(fault.status), status=fault.status, headers=headers)


def _error_event(code: int) -> bytes:
    return json.dumps({"type": "ERROR", "object": _status(code)}).encode() + b"\n"
