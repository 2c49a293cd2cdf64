"""Client of the engine's control API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from outrider.api.validation_message import first_validation_message
from outrider.engine.errors import (
    EngineProtocolError,
    EngineUnreachable,
    LiveTuningImpossible,
    NotSent,
    ProbeRunning,
    PushRefused,
    SignatureRefused,
    StaleTerm,
)
from outrider.engine.signing import SigningKey
from outrider.engine.state import EngineState, Sentence, Word
from outrider.foreign import InputRefused, read_as
from outrider.foreign.readers import ENGINE_REFUSAL, ENGINE_STATE
from outrider.transport import AnswerRefused, NoAnswer, PodAnswer, PodHttp, Unwritable
from outrider_protocol.control_api import PROBE_PATH, SCHEDULE_PATH, STATE_PATH, ProbeOrder, Push, Reason

_AT_THE_CONTROL_PORT = (
    "at the control port: an older plugin has none, or a NetworkPolicy keeps the operator out"
)

_UNREADABLE = (ValueError, TypeError, LookupError, RecursionError)
"""Errors that HTTP, JSON and pydantic raise for an answer."""


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Address of one engine, with the key and the pod for which its requests are signed.

    url: of the serving port, without a path.
    pod_uid: an engine accepts only requests signed for its own pod.
    control_url: of the control API, without a path; None: the same as ``url``.
    """

    url: str
    pod_uid: str
    key: SigningKey
    control_url: str | None = None


class EngineClient:
    """Client that reads and sets the schedule of engines; safe for concurrent use.

    timeout_seconds: for one complete answer, from the connection to its last byte.
    http: for tests; by default real HTTP.
    leads: asked before each push and probe. False after this process lost the Lease, also by a pause that
        lasted longer than the Lease.
    """

    def __init__(
        self,
        *,
        timeout_seconds: float,
        http: PodHttp | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._timeout = timeout_seconds
        self._leads = leads
        self._http = http or PodHttp()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def state(self, engine: EngineAddress) -> EngineState:
        """Return the engine's current state.

        Raises:
            EngineUnreachable, EngineProtocolError, PushRefused: see `outrider.engine.errors`.
        """
        return await self._request("GET", engine, STATE_PATH, None)

    async def push(self, engine: EngineAddress, push: Push) -> EngineState:
        """Install a schedule, or renew its lease; return the state after the change.

        Raises:
            EngineUnreachable: the schedule may or may not be installed; read the state.
            EngineProtocolError, NotSent, PushRefused: see `outrider.engine.errors`.
        """
        return await self._request("PUT", engine, SCHEDULE_PATH, push.to_wire())

    async def probe(self, engine: EngineAddress, order: ProbeOrder) -> EngineState:
        """Start a probe and return the state immediately. The engine ends the probe.

        Raises:
            ProbeRunning: another probe is running.
            StaleTerm: another schedule is in force, or its lease has expired.
            EngineUnreachable, EngineProtocolError, NotSent, PushRefused: see `outrider.engine.errors`.
        """
        return await self._request("POST", engine, PROBE_PATH, order.to_wire())

    async def _request(
        self, method: str, engine: EngineAddress, path: str, body: dict[str, object] | None
    ) -> EngineState:
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._answer(method, engine, path, body)
            if answer.is_success:
                return _parse_state(answer)
            refusal = _refusal(path, answer)
        except TimeoutError as error:
            raise _unreachable(engine, f"timeout: no complete answer within {self._timeout:g} s") from error
        except (Unwritable, UnicodeEncodeError) as error:
            raise EngineProtocolError("HTTP cannot represent the address or the UID of the pod") from error
        except NoAnswer as error:
            raise _unreachable(engine, str(error)) from error
        except _UNREADABLE as error:
            raise EngineProtocolError(f"cannot parse the answer: {_words(error)}") from error
        raise refusal

    async def _answer(
        self, method: str, engine: EngineAddress, path: str, body: dict[str, object] | None
    ) -> PodAnswer:
        content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        signed = engine.key.authorization(method=method, path=path, pod_uid=engine.pod_uid, body=content)
        if method != "GET" and not self._leads():
            raise NotSent
        try:
            return await self._http.ask(
                method,
                (engine.control_url or engine.url) + path,
                most_bytes=ENGINE_STATE.most_bytes,
                headers={"Authorization": signed},
                body=content,
            )
        except AnswerRefused as error:
            raise EngineProtocolError(str(error)) from error


class _ErrorDetail(BaseModel):
    model_config = ConfigDict(frozen=True)
    reason: Word
    message: Sentence = ""


class _ErrorBody(BaseModel):
    model_config = ConfigDict(frozen=True)
    error: _ErrorDetail


_STATE, _REFUSAL = TypeAdapter(EngineState), TypeAdapter(_ErrorBody)


def _parse_state(answer: PodAnswer) -> EngineState:
    try:
        return read_as(ENGINE_STATE, answer.content, _STATE)
    except InputRefused as error:
        raise EngineProtocolError(f"cannot parse the state: body: {error}") from error
    except ValidationError as error:
        raise EngineProtocolError(
            f"cannot parse the state: {first_validation_message(error, whole='body')}"
        ) from error


def _refusal(path: str, answer: PodAnswer) -> Exception:
    try:
        detail = read_as(ENGINE_REFUSAL, answer.content, _REFUSAL).error
    except ValueError:
        if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            missing = "control API" if path != PROBE_PATH else "probes in the control API"
            return EngineProtocolError(
                f"no {missing}: the engine runs without the outrider_engine plugin, or an older one"
            )
        return EngineProtocolError(f"HTTP {answer.status} without a reason")
    if detail.reason == Reason.PROBE_RUNNING:
        return ProbeRunning(detail.reason, detail.message)
    kinds: dict[int, type[PushRefused]] = {
        HTTPStatus.UNAUTHORIZED: SignatureRefused,
        HTTPStatus.CONFLICT: StaleTerm,
        HTTPStatus.SERVICE_UNAVAILABLE: LiveTuningImpossible,
    }
    return kinds.get(answer.status, PushRefused)(detail.reason, detail.message)


def _unreachable(engine: EngineAddress, why: str) -> EngineUnreachable:
    return EngineUnreachable(why if engine.control_url is None else f"{why} ({_AT_THE_CONTROL_PORT})")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
