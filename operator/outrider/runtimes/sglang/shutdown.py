"""How a pod of SGLang ends: before SIGTERM, how long it may take, and what its log says of the cause."""

from __future__ import annotations

import re
from collections.abc import Mapping

from outrider.api.json_object import Json
from outrider.foreign.readers import LAST_WORDS
from outrider.runtimes.engine_launch import EngineLaunch
from outrider.runtimes.plugin import DRAIN

_FORGET_SECONDS = 5
"""Endpoints drop a stopping pod within this time; until then new connections arrive."""
_DRAIN_SECONDS = 30
_REQUEST_SECONDS = 50
"""What requests that run get after that. SGLang has no limit of its own: after SIGTERM it waits for them."""
_STOCK_DRAIN_SECONDS = 15
_END_SECONDS = 30
"""What an engine takes to end once its requests have: it looks every 5 s, and then stops its schedulers.
Source: ``sigterm_watchdog`` in ``managers/tokenizer_manager.py``."""


def pre_stop(launch: EngineLaunch) -> Json:
    """What comes before SIGTERM, after which SGLang answers its health check with 503."""
    if launch.stock:
        return {"sleep": {"seconds": _STOCK_DRAIN_SECONDS}}
    limits = {
        "port": launch.spec.engine.port,
        "at-least": _FORGET_SECONDS,
        "at-most": _DRAIN_SECONDS + _REQUEST_SECONDS,
    }
    flags = [word for flag, value in limits.items() for word in (f"--{flag}", str(value))]
    return {"exec": {"command": [*DRAIN, *flags]}}


def seconds_to_end(launch: EngineLaunch) -> int:
    """Seconds from the start of `pre_stop` to SIGKILL."""
    drain = _STOCK_DRAIN_SECONDS if launch.stock else _DRAIN_SECONDS
    return drain + _REQUEST_SECONDS + _END_SECONDS


_NO_MODEL_AT = re.compile(
    r"(?P<path>/[^\s'\"]{1,4096}) is not a local folder and is not a valid model identifier"
)
"""transformers, which reads the configuration of the model or the drafter."""

_REMEDIES: Mapping[str, str] = {
    "Please try to increase --mem-fraction-static": (
        "To leave more memory to the cache, raise spec.engine.args.mem-fraction-static"
    ),
    "Capture cuda graph failed": (
        "To leave more memory to CUDA graphs, lower spec.engine.args.mem-fraction-static or name fewer "
        "spec.speculation.candidates"
    ),
}
"""A part of the last line -> what to change."""


def remedy(cause: str) -> str | None:
    """What Outrider did and what to change after an end with this line; None where unknown."""
    return next((change for words, change in _REMEDIES.items() if words in cause), None)


def missing_model(log: str) -> str | None:
    """The absolute path at which the engine found no model or drafter; None where it ended otherwise."""
    found = _NO_MODEL_AT.search(log[-LAST_WORDS.most_bytes :])
    return None if found is None else found["path"]
