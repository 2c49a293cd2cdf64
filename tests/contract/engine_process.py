"""Programs of the engine's Python: forked from one that is warm, or begun as a container begins them."""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from tests.contract import warm_python

CACHE = Path(os.environ.get("OUTRIDER_CACHE", Path.home() / ".cache" / "outrider"))
PYTHON = Path(os.environ.get("OUTRIDER_ENGINE_PYTHON", CACHE / "engine-env" / "bin" / "python"))
"""The Python of the vLLM under test. Another release is tested by naming that of its own environment."""
SGLANG = CACHE / "engine-env" / "sglang"
"""SGLang, and those of its packages that vLLM's environment lacks."""

QUIET: Mapping[str, str] = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""What packages read as they are imported, so it is the same for every program. No connection to the
outside, and one thread each."""

API_SERVER = "vllm.entrypoints.openai.api_server"
_SIMULATED = "OUTRIDER_TWIN"
_READ_LATER = {"VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_PLUGINS", "VLLM_USE_V2_MODEL_RUNNER"}
"""What engines of the tests have differently, and vLLM does not read as it is imported."""

INTERPRETED: Mapping[str, str] = {"TRITON_INTERPRET": "1"}
"""Triton runs kernels as Python. It reads this, and looks for backends, as it is imported."""


class EngineProcess:
    """One forked program, the leader of its process group, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Less than 0 is a signal."""
        self._told = told

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code.

        Raises:
            subprocess.TimeoutExpired: it has not ended after so many seconds.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired([str(PYTHON)], timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """As Kubernetes ends a container."""
        self.send_signal(signal.SIGTERM)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            with self._told:
                self.returncode = int(_line(self._told))
        return self.returncode


Process = subprocess.Popen[bytes] | EngineProcess


class Start(Protocol):
    """Begin ``python <arguments>`` with these variables as its whole environment."""

    def __call__(self, arguments: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> Process:
        """log: takes its standard output and error. The process leads a group of its own."""


def begin(arguments: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> Process:
    """As a container does: every package is imported anew."""
    command = [str(PYTHON), *arguments]
    return subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)


def fork(
    arguments: Sequence[str], variables: Mapping[str, str], log: IO[bytes], *, spawns: bool = False
) -> Process:
    """With the packages that were imported under `QUIET`; what contradicts that begins anew.

    Programs for which Triton interprets are forked from a Python of their own, which has Triton's backend.
    spawns: what it spawns is forked in the same way, and finds the state of a Python that begins.
    """
    if _contradicts(variables):
        return begin(arguments, variables, log)
    return _forked(_warm_for(variables), log, arguments=arguments, variables=variables, spawns=spawns)


def fork_server(arguments: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> Process:
    """As `fork`, and what vLLM's API server imports is imported, for all servers of the same `_ground`.

    vLLM loads its plugins later. Not for several servers of one engine: they have an environment in which
    the client of Prometheus is to be imported.
    """
    if _contradicts(variables):
        return begin(arguments, variables, log)
    imported = _imported(tuple(sorted(_ground(variables).items())), interprets=_interprets(variables))
    return _forked(imported, log, arguments=arguments, variables=variables)


def fork_with_sglang(arguments: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> Process:
    """As `fork` of a program that spawns, with the packages that SGLang has beside vLLM's."""
    if _contradicts(variables):
        return begin(arguments, variables, log)
    warm = _warm_python(str(SGLANG), interprets=False).requests
    return _forked(warm, log, arguments=arguments, variables=variables, spawns=True)


def _contradicts(variables: Mapping[str, str]) -> bool:
    return any(variables.get(name, value) != value for name, value in QUIET.items())


def _interprets(variables: Mapping[str, str]) -> bool:
    return INTERPRETED.items() <= variables.items()


def _ground(variables: Mapping[str, str]) -> dict[str, str]:
    """What vLLM may read as it is imported: its own variables, its paths, and whether it is simulated."""
    own = {name: value for name, value in variables.items() if name.startswith("VLLM_")}
    simulated = {_SIMULATED: "1"} if variables.get(_SIMULATED) else {}
    paths = {"PYTHONPATH": variables["PYTHONPATH"]} if "PYTHONPATH" in variables else {}
    return {name: value for name, value in own.items() if name not in _READ_LATER} | simulated | paths


def _forked(warm: socket.socket, log: IO[bytes], *more: socket.socket, **program: object) -> EngineProcess:
    """A program of `warm_python`. more: files for it."""
    ours, theirs = socket.socketpair()
    with theirs:
        files = [theirs.fileno(), log.fileno(), *(each.fileno() for each in more)]
        socket.send_fds(warm, [json.dumps(program, default=dict).encode()], files)
    return EngineProcess(int(_line(ours)), ours)


@dataclass(frozen=True, slots=True)
class Run:
    """A program that has ended. log: what it printed, as the log of a container has it."""

    returncode: int
    log: str


def run(
    arguments: Sequence[str], variables: Mapping[str, str], *, timeout: float, start: Start = fork
) -> Run:
    """Wait until ``python <arguments>`` has ended.

    Raises:
        subprocess.TimeoutExpired: it has not ended after so many seconds, and was killed.
    """
    with tempfile.TemporaryFile() as log:
        process = start(arguments, variables, log)
        try:
            code = process.wait(timeout)
        finally:
            kill_group(process)
        log.seek(0)
        return Run(code, log.read().decode(errors="replace"))


def kill_group(process: Process) -> None:
    """Whatever is left of it and of what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _WarmPython:
    """It ends with this process, which holds the only other end of its input."""

    requests: socket.socket
    process: subprocess.Popen[bytes]


def _warm_for(variables: Mapping[str, str]) -> socket.socket:
    interprets = _interprets(variables)
    return _warm_python(
        variables.get("PYTHONPATH", "") if interprets else None, interprets=interprets
    ).requests


@functools.cache
def _imported(ground: tuple[tuple[str, str], ...], *, interprets: bool) -> socket.socket:
    """The requests of a Python that has imported what vLLM's API server imports."""
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    variables = {**os.environ, **QUIET, **(INTERPRETED if interprets else {}), **dict(ground)}
    with theirs, Path(os.devnull).open("wb") as log:
        _forked(
            _warm_for(variables),
            log,
            theirs,
            arguments=["-c", ""],
            variables=variables,
            imported=[API_SERVER],
        )
    return requests


@functools.cache
def _warm_python(paths: str | None, *, interprets: bool) -> _WarmPython:
    """paths: where it finds packages beside those of the engine's environment, such as Triton's backend."""
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    more = {} if paths is None else {"PYTHONPATH": paths}
    variables = {**inherited, **QUIET, **more, **(INTERPRETED if interprets else {})}
    with theirs:
        command = [str(PYTHON), warm_python.__file__]
        process = subprocess.Popen(command, env=variables, stdin=theirs)  # type: ignore[call-overload]
    return _WarmPython(requests, process)


def _line(connection: socket.socket) -> str:
    text = b""
    while not text.endswith(b"\n"):
        received = connection.recv(1)
        if not received:
            raise AssertionError("the Python that engines are forked from has ended")
        text += received
    return text.decode()
