"""A Python that has imported what vLLM imports, and forks for each program that it is asked to run.

Run by the engine's Python, not by pytest. Its standard input is a Unix socket of whole messages: each is a
`Program` as JSON, with `FILES` files. It ends when that input does. `engine_process` is the other side.

Half of an engine's start goes into the import of packages that are the same for all of them. vLLM itself is
not among those: what it reads of the environment and of plugins as it is imported differs from engine to
engine. A program finds its arguments, its environment and its paths as if Python had just begun; engines
that begin as they do in a container are those of the cluster's tests.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

PACKAGES = (
    "torch._inductor.compile_fx",
    "torch._inductor.lowering",
    "transformers.modeling_gguf_pytorch_utils",
    "transformers.models.auto.image_processing_auto",
    "transformers.models.auto.modeling_auto",
    "openai.types.responses",
    "aiohttp",
    "fastapi",
    "uvicorn",
    "zmq",
)
"""Of the seconds that ``python -X importtime`` shows for the API server of vLLM 0.32, 85 %."""

MESSAGE_BYTES = 1 << 20
FILES = 2
"""File for the process's id and its exit code, a line each; the program's log."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is to run. arguments: those of Python, ``-m module …``, ``-c code …`` or ``file …``."""

    arguments: list[str]
    variables: dict[str, str]


def main() -> None:
    """Serve until standard input ends; in each forked process, run its program."""
    del sys.path[0]  # the folder of this file, whose modules no program means
    for package in PACKAGES:
        import_module(package)
    own = os.environ.get("PYTHONPATH")
    if own is not None:
        del sys.path[: len(own.split(os.pathsep))]  # each program brings its own
    # It finds the place of the title behind the arguments as long as the environment still lies there.
    import_module("setproctitle").getproctitle()
    gc.freeze()  # no program need look through what was imported here
    program = serve(socket.socket(fileno=sys.stdin.fileno()))
    if program is not None:
        find_paths(program)
        os.execv = lambda _, arguments: become(arguments[1:])  # type: ignore[assignment,misc]
        become(program.arguments)


def serve(requests: socket.socket) -> Program | None:
    """Returns in every forked process, with its program, and in this one at the end, with None."""
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, ended], [], [])
        if ended in ready:
            ended.recv(MESSAGE_BYTES)
            tell_ends(running)
        if requests in ready:
            message, files, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, FILES)
            if not message:
                return None
            asking = socket.socket(fileno=files[0])
            pid = os.fork()
            if pid == 0:
                requests.detach()  # or its end would close what becomes this program's standard input
                for open_here in (ended, wake, asking, *running.values()):
                    open_here.close()
                return begin_anew(json.loads(message), files[1])
            os.close(files[1])
            running[pid] = asking
            asking.sendall(f"{pid}\n".encode())


def tell_ends(running: dict[int, socket.socket]) -> None:
    """Report to the requester, if it still listens, how a program ended; less than 0 is a signal."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as asking, suppress(BrokenPipeError):
                asking.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def begin_anew(message: dict[str, Any], log: int) -> Program:
    """A session of its own, its own output and environment, without this process's input and signals."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    program = Program(**message)
    os.environ.clear()
    os.environ.update(program.variables)
    return program


def find_paths(program: Program) -> None:
    """The paths of a Python that begins, and the module in them that it imports first."""
    kind = program.arguments[0]
    here = {"-m": os.getcwd(), "-c": ""}.get(kind, os.path.dirname(kind))  # noqa: PTH109, PTH120
    sys.path[:0] = [here, *program.variables.get("PYTHONPATH", "").split(os.pathsep)]
    sys.modules.pop("sitecustomize", None)
    with suppress(ModuleNotFoundError):
        import_module("sitecustomize")


def become(arguments: list[str]) -> NoReturn:
    """Run a module, code or a file as Python does that was started with these arguments."""
    kind, *rest = arguments
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = [kind, *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    main()
