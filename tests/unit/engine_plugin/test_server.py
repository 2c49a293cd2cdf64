"""The port of the control API, as an API server process takes it."""

from __future__ import annotations

import socket

import pytest

from outrider_engine.http.server import control_port, listen


def test_without_the_variable_the_control_api_has_no_port_of_its_own() -> None:
    assert control_port({}) is None
    assert control_port({"OUTRIDER_CONTROL_PORT": ""}) is None
    assert control_port({"OUTRIDER_CONTROL_PORT": "8091"}) == 8091


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_families_of_addresses_are_answered(host: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with listen(0) as listening, socket.create_connection((host, listening.getsockname()[1]), timeout=5):
        connection, _ = listening.accept()
        connection.close()


def test_several_api_servers_of_an_engine_share_the_port() -> None:
    with listen(0) as one:
        port = one.getsockname()[1]
        with listen(port) as other:
            assert other.getsockname()[1] == port


def test_a_port_that_somebody_else_has_is_an_error() -> None:
    with socket.create_server(("", 0)) as somebody, pytest.raises(OSError, match="in use"):
        listen(somebody.getsockname()[1])
