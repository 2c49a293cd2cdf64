"""The K limit of a request in its sampling parameters: checked, and joined with that of its HTTP header.

Runs in vLLM's API server. Source: vLLM 0.26 to 0.33. Every OpenAI-compatible route makes its sampling
parameters by ``SamplingParams.from_optional``. It does so in the task that handles the request, before an
answer begins. The server answers `VLLMValidationError` with HTTP 400.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from outrider_engine.control.request_limits import KEY, InvalidLimit, read_header, read_limit
from outrider_engine.vllm_adapter.wrapping import wrap

LIMIT_HEADERS: ContextVar[Sequence[str]] = ContextVar("outrider_limit_headers", default=())
"""Values of the header in the request that this task handles."""


def attach_to_sampling_params() -> None:
    """Check and join the K limits of requests. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM makes sampling parameters elsewhere.
    """
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    attach(SamplingParams, VLLMValidationError)


def attach(params: Any, invalid: Callable[..., Exception]) -> None:
    """`attach_to_sampling_params` on a given class.

    invalid: makes vLLM's error from a message and the name of the parameter.
    """
    wrap(params, "from_optional", lambda original: _with_limit(original, invalid))


def joined(extra_args: dict[str, object] | None, headers: Sequence[str]) -> dict[str, object] | None:
    """The extra arguments with the smaller K limit of both; the same object where no header limits it.

    Raises:
        InvalidLimit: one of the limits cannot be read.
    """
    limits = [read_header(text) for text in headers]
    if extra_args and KEY in extra_args:
        limits.append(read_limit(extra_args[KEY]))
    return {**(extra_args or {}), KEY: min(limits)} if headers else extra_args


def _with_limit(original: Callable[..., Any], invalid: Callable[..., Exception]) -> Callable[..., Any]:
    def from_optional(*args: Any, **kwargs: Any) -> Any:
        headers, extra_args = LIMIT_HEADERS.get(), kwargs.get("extra_args")
        if headers or extra_args:
            try:
                kwargs["extra_args"] = joined(extra_args, headers)
            except InvalidLimit as error:
                raise invalid(str(error), parameter=error.name) from error
        return original(*args, **kwargs)

    return from_optional
