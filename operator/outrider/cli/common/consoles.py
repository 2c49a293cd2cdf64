"""The console on which a command prints for people."""

from __future__ import annotations

from rich.console import Console

_WIDTH_OF_FILES = 400
"""Characters in a line of a pipe. It has no width, and its reader can wrap lines and not join them."""


def current_console() -> Console:
    """A console on standard output, as wide as the terminal; without a terminal it has no colours."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_OF_FILES)
    return console
