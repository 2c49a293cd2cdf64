"""Lets an engine's clients leave before it ends: the command that its container runs before SIGTERM.

``python -m outrider_engine.drain --port 8000 --at-least 5 --at-most 80``

A Service steers new connections only, so a client that keeps one open comes back to a pod that ends.
The API servers look for the drain file and answer with ``Connection: close`` while it is there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

DRAIN_FILE_VARIABLE = "OUTRIDER_DRAIN_FILE"
"""As in `outrider_protocol.environment`: this command loads nothing that it can do without."""
SOCKET_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Files with the connections of all processes of the pod's network."""

POLL_SECONDS = 0.2
_ESTABLISHED = "01"


def main(arguments: Sequence[str]) -> None:
    """Begin the drain, and return when no client is connected or the time is up."""
    parser = argparse.ArgumentParser(prog="python -m outrider_engine.drain", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the API server")
    parser.add_argument("--at-least", type=float, required=True, help="seconds in which clients still come")
    parser.add_argument("--at-most", type=float, required=True, help="seconds after which it is over")
    given = parser.parse_args(arguments)
    file = os.environ.get(DRAIN_FILE_VARIABLE)
    # Where it cannot be written, the wait is still worth its time.
    with contextlib.suppress(OSError):
        if file:
            Path(file).touch()
    wait_for_clients(lambda: open_connections(given.port), at_least=given.at_least, at_most=given.at_most)


def wait_for_clients(
    connections: Callable[[], int],
    *,
    at_least: float,
    at_most: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once there are no connections, between ``at_least`` and ``at_most`` seconds from now."""
    began = clock()
    while (waited := clock() - began) < at_most:
        if waited >= at_least and connections() == 0:
            return
        sleep(POLL_SECONDS)


def open_connections(port: int, tables: Sequence[Path] = SOCKET_TABLES) -> int:
    """How many clients are connected to a local port, over IPv4 and IPv6."""
    return sum(_is_open(row.split(), port) for table in tables for row in _rows(table))


def _rows(table: Path) -> list[str]:
    """Rows without the heading; none where the kernel lacks this kind of address."""
    return table.read_text().splitlines()[1:] if table.exists() else []


def _is_open(row: Sequence[str], port: int) -> bool:
    local, state = row[1], row[3]
    return state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port


if __name__ == "__main__":
    main(sys.argv[1:])
