"""Moments that lie in the future, since the clock was ahead for a while. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from outrider.tuning.bounded_types import UnixSeconds

StateT = TypeVar("StateT")

_END = "until"
"""Names of fields end so where they say how long something holds, so that they may lie ahead."""


def not_ahead(state: StateT, now: float, *, ahead: float) -> StateT:
    """A dataclass whose moments, at any depth, lie no later than ``now``; the same object where all do.

    ahead: seconds by which the clock was ahead. What holds until a moment holds for as long as it did then.
    """
    changed: Any = _not_ahead(state, now, ahead)
    return state if changed is None else changed


def _not_ahead(value: Any, now: float, ahead: float) -> Any:
    """None: nothing to change."""
    if isinstance(value, Mapping):
        found = {key: _not_ahead(each, now, ahead) for key, each in value.items()}
        return {key: _or(new, value[key]) for key, new in found.items()} if _any(found.values()) else None
    if isinstance(value, tuple):
        items = [_not_ahead(each, now, ahead) for each in value]
        return tuple(map(_or, items, value)) if _any(items) else None
    if not is_dataclass(value) or isinstance(value, type):
        return None
    moments = _moments(type(value))
    news = {}
    for each in fields(value):
        before = getattr(value, each.name)
        if each.name not in moments:
            after = _not_ahead(before, now, ahead)
        elif before is None or before <= now:
            after = None
        else:
            after = max(now, before - ahead) if each.name.endswith(_END) else now
        if after is not None:
            news[each.name] = after
    return replace(value, **news) if news else None


def _any(found: Any) -> bool:
    return any(each is not None for each in found)


def _or(new: Any, old: Any) -> Any:
    return old if new is None else new


@cache
def _moments(kind: type) -> frozenset[str]:
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(n for n, hint in hints.items() if UnixSeconds in (hint, *get_args(hint)))
