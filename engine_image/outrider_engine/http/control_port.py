"""The control API on its own port, so that a NetworkPolicy can admit the operator and not clients."""

from __future__ import annotations

import socket
from collections.abc import Mapping

CONTROL_PORT_VARIABLE = "OUTRIDER_CONTROL_PORT"


def control_port(environment: Mapping[str, str]) -> int | None:
    """The port; None where the control API is on the engine's own HTTP port.

    Raises:
        ValueError: the value is not a number.
    """
    value = environment.get(CONTROL_PORT_VARIABLE)
    return int(value) if value else None


def listen(port: int) -> socket.socket:
    """A socket for connections to any address of the pod, over IPv4 and IPv6.

    Several API server processes of one engine share the port; each asks the same engine core.

    Raises:
        OSError: the port is in use.
    """
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, reuse_port=True)
    return socket.create_server(("", port), reuse_port=True)
