"""How a pod of any engine loses its clients before SIGTERM, and what it gets until SIGKILL."""

from __future__ import annotations

from outrider.api.json_object import Json
from outrider.runtimes.engine_launch import EngineLaunch

_DRAIN = ("python3", "-m", "outrider_engine.drain")
"""Sends clients elsewhere, and ends once they have gone."""
_FORGET_SECONDS = 5
"""Endpoints drop a stopping pod within this time; until then new connections arrive."""
_DRAIN_SECONDS = 30
"""At most, beside the time of requests that run long: until then a stopping pod waits for its clients to
go elsewhere. A client does so with its next answer, and engines close a connection that is idle for 5 s."""
_STOCK_DRAIN_SECONDS = 15
"""Always: a stock engine cannot send clients away. Those whose connections are idle for 5 s in a row,
or no older than 10 s, have left by then."""


def pre_stop(launch: EngineLaunch, *, request_seconds: int) -> Json:
    """What comes before SIGTERM. request_seconds: what requests that run get.

    They have their time before SIGTERM, too. Only until then does the next one on the same connection get an
    answer, and with it the word to go elsewhere.
    """
    if launch.stock:
        return {"sleep": {"seconds": _STOCK_DRAIN_SECONDS}}
    limits = {
        "port": launch.spec.engine.port,
        "at-least": _FORGET_SECONDS,
        "at-most": _DRAIN_SECONDS + request_seconds,
    }
    flags = [word for flag, value in limits.items() for word in (f"--{flag}", str(value))]
    return {"exec": {"command": [*_DRAIN, *flags]}}


def seconds_to_end(launch: EngineLaunch, *, request_seconds: int, end_seconds: int) -> int:
    """Seconds from the start of `pre_stop` to SIGKILL. end_seconds: what an engine without requests takes."""
    drain = _STOCK_DRAIN_SECONDS if launch.stock else _DRAIN_SECONDS
    return drain + request_seconds + end_seconds
