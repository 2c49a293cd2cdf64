"""Ports for the servers that tests start."""

import random
import socket

_PORTS = range(20_000, 30_000)
"""Linux gives ports from 32768 on to connections and to servers that leave the choice to it."""
_held: list[socket.socket] = []


def free_port() -> int:
    """A port without a listener, for a server that this process starts at any later time.

    Linux gives it to no connection meanwhile, and this function gives it to no other process before this one
    ends: its name among the abstract Unix sockets says that it is in use. Raises OSError where none is free.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0outrider-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            name.close()
            continue
        _held.append(name)
        return port
    raise OSError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free")
