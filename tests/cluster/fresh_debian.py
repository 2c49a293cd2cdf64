"""The programs of a fresh Debian with some packages installed, and no others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

_FOLDERS = {Path(folder) for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin")}


def link_programs(packages: Iterable[str], folder: Path) -> Path:
    """A folder for PATH: what every Debian has, and the programs of `packages`. Returns `folder`.

    Raises:
        AssertionError: one of the packages is not installed on this machine.
    """
    for program in _programs([*_of_every_debian(), *packages]):
        link = folder / program.name
        if not link.exists():
            link.symlink_to(program)
    return folder


def _of_every_debian() -> list[str]:
    """Packages without which Debian is none: the least that its installers leave."""
    told = _ask("-W", "-f", "${Package} ${Essential} ${Priority} ${db:Status-Status}\n")
    rows = [line.split() for line in told.splitlines()]
    return [
        name
        for name, essential, priority, status in rows
        if status == "installed" and (essential == "yes" or priority == "required")
    ]


def _programs(packages: Iterable[str]) -> Iterator[Path]:
    for line in _ask("-L", *packages).splitlines():
        path = Path(line)
        if path.parent in _FOLDERS and path.is_file():
            yield path


def _ask(*words: str) -> str:
    done = subprocess.run(["dpkg-query", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
