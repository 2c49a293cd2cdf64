"""What runs in an engine's container before SIGTERM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider_engine import drain
from outrider_engine.drain import POLL_SECONDS, open_connections, wait_for_clients

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"


class Time:
    """A clock that only a sleep moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, connections: Callable[[], int], *, at_least: float = 5, at_most: float = 30) -> float:
        """Seconds that the wait took."""
        began = self.now
        wait_for_clients(connections, at_least=at_least, at_most=at_most, clock=self.clock, sleep=self.sleep)
        return self.now - began


def test_an_engine_without_clients_waits_until_endpoints_forget_it() -> None:
    assert Time().wait(lambda: 0) == pytest.approx(5, abs=POLL_SECONDS)


def test_the_wait_ends_when_the_last_client_has_gone() -> None:
    time = Time()
    assert time.wait(lambda: int(time.now < 1012)) == pytest.approx(12, abs=POLL_SECONDS)


def test_a_client_that_stays_is_waited_for_until_the_time_is_up() -> None:
    assert Time().wait(lambda: 1) == pytest.approx(30, abs=POLL_SECONDS)


def test_a_client_that_comes_while_endpoints_still_name_the_engine_is_waited_for() -> None:
    time = Time()
    assert time.wait(lambda: int(1004 < time.now < 1009)) == pytest.approx(9, abs=POLL_SECONDS)


def test_only_open_connections_to_the_port_count(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(
        HEADING
        + "   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000\n"  # listens
        + "   1: 0A00000A:1F40 0B00000A:D431 01 00000000:00000000 00:00000000 00000000  1000\n"  # open
        + "   2: 0A00000A:1F40 0B00000A:D432 06 00000000:00000000 03:00000000 00000000  1000\n"  # was closed
        + "   3: 0A00000A:D433 0B00000A:1F40 01 00000000:00000000 00:00000000 00000000  1000\n"  # of our own
    )
    assert open_connections(0x1F40, [table]) == 1


def test_connections_over_ipv6_count_and_a_kernel_without_it_has_none(tmp_path: Path) -> None:
    table, address = tmp_path / "tcp6", "0000000000000000FFFF00000A00000A"
    row = f"   0: {address}:1F40 {address}:D431 01 00000000:00000000 00:00000000 00000000  1000\n"
    table.write_text(HEADING + row)
    assert open_connections(0x1F40, [tmp_path / "tcp", table]) == 1


@pytest.mark.parametrize("folder", [".", "is/not/there"])
def test_the_command_leaves_the_file_that_api_servers_look_for_and_waits_without_it(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, waited = tmp_path / folder / "drain", []
    monkeypatch.setenv(drain.DRAIN_FILE_VARIABLE, str(file))
    monkeypatch.setattr(drain, "wait_for_clients", lambda _, **limits: waited.append((file.exists(), limits)))
    drain.main(["--port", "8000", "--at-least", "5", "--at-most", "30"])
    assert waited == [(folder == ".", {"at_least": 5.0, "at_most": 30.0})]


def test_the_command_loads_nothing_but_the_standard_library() -> None:
    code = "import sys, outrider_engine.drain; print(*{name.partition('.')[0] for name in sys.modules})"
    printed = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PATH + code], capture_output=True, check=True
    )
    loaded = set(printed.stdout.decode().split()) - set(sys.stdlib_module_names) - {"__main__"}
    assert loaded == {"outrider_engine"}


_PATH = f"import sys; sys.path.insert(0, {str(Path(drain.__file__).parents[1])!r}); "
