"""How a pod of SGLang ends: before SIGTERM, how long it may take, and what its log says of the cause."""

from __future__ import annotations

import re
from collections.abc import Mapping

from outrider.api.json_object import Json
from outrider.foreign.readers import LAST_WORDS
from outrider.runtimes import draining
from outrider.runtimes.engine_launch import EngineLaunch

_REQUEST_SECONDS = 50
"""What requests that run get. SGLang has no limit of its own: after SIGTERM it waits for them."""
_END_SECONDS = 30
"""What an engine takes to end once its requests have: it looks every 5 s, and then stops its schedulers.
Source: ``sigterm_watchdog`` in ``managers/tokenizer_manager.py``."""


def pre_stop(launch: EngineLaunch) -> Json:
    """What comes before SIGTERM, after which SGLang answers its health check with 503."""
    return draining.pre_stop(launch, request_seconds=_REQUEST_SECONDS)


def seconds_to_end(launch: EngineLaunch) -> int:
    """Seconds from the start of `pre_stop` to SIGKILL."""
    return draining.seconds_to_end(launch, request_seconds=_REQUEST_SECONDS, end_seconds=_END_SECONDS)


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
