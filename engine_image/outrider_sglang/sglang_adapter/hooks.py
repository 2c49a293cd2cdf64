"""Hooks around functions of SGLang, by its own registry.

Source: SGLang 0.5.23, `sglang.srt.plugins.hook_registry`. The registry imports the module of each target when
it applies the hooks. It logs a target that it cannot hook, and continues.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Hook(NamedTuple):
    """One hook.

    target: dotted name of a function or method.
    around: called in its place with the original function and its arguments.
    """

    target: str
    around: Callable[..., Any]


def register_hooks(hooks: Iterable[Hook]) -> None:
    """Have SGLang apply these hooks once all plugins are loaded.

    Raises:
        ImportError, AttributeError: this SGLang has no such registry.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for hook in hooks:
        HookRegistry.register(hook.target, hook.around, HookType.AROUND)


def apply_hooks_now() -> None:
    """Have SGLang apply the hooks that were registered since it loaded its plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    HookRegistry.apply_hooks()


def unapplied(hooks: Iterable[Hook]) -> list[str]:
    """The targets that SGLang does not have, or has not hooked."""
    return [hook.target for hook in hooks if not _is_wrapped(hook.target)]


def _is_wrapped(target: str) -> bool:
    try:
        found = pkgutil.resolve_name(target)
    except (ImportError, AttributeError):
        return False
    return hasattr(found, "__wrapped__")
