"""Where a command prints what people read."""

from __future__ import annotations

from rich.console import Console

_WIDTH_OF_FILES = 400
"""Characters; a pipe has no width of its own, and whoever reads it can wrap lines, not join them."""


def console_of_now() -> Console:
    """Standard output as wide as it is; without a terminal there are no colours."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_OF_FILES)
    return console
