"""The command line of every module that writes a generated file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_or_print(
    module: str, file_name: str, render: Callable[[], str], arguments: Sequence[str] | None = None
) -> None:
    """Run ``python -m module [--write FOLDER]``: write the text to a folder or to standard output."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Generate {file_name}.")
    parser.add_argument("--write", metavar="FOLDER", type=Path, help="folder to write to")
    folder: Path | None = parser.parse_args(arguments).write
    if folder is None:
        sys.stdout.write(render())
    else:
        (folder / file_name).write_text(render(), encoding="utf-8")
