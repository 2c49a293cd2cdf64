"""Wraps a function of vLLM, at most once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_WRAPPED = "_outrider_wrapped"


def wrap(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put ``wrapper`` of a function in its place. Repeated calls have no effect.

    owner: the class or module that has the function.

    Raises:
        AttributeError: this vLLM has no such function.
    """
    original = getattr(owner, name)
    if not hasattr(original, _WRAPPED):
        wrapped = functools.wraps(original)(wrapper(original))
        setattr(wrapped, _WRAPPED, True)
        setattr(owner, name, wrapped)
