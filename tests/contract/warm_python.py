"""A Python that has imported what vLLM imports, and forks for each program that it is asked to run.

Run by the engine's Python, not by pytest. Its standard input is a Unix socket of whole messages: each is a
`Program` as JSON, with `FILES` files. It ends when that input does. `engine_process` is the other side.

Half of an engine's start goes into the import of packages that are the same for all of them. vLLM itself is
not among those: what it reads of the environment and of its platform as it is imported differs from engine to
engine. Servers that agree in that are forked from a further Python, which has imported what vLLM's API server
imports. A program finds its arguments, its environment and its paths as if Python had just begun; engines
that begin as they do in a container are those of the cluster's tests.

The same holds for processes that a program has multiprocessing spawn, where the program asks for it: SGLang
begins each of its processes anew.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable, Sequence
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
FILES = 3
"""File for the process's id and its exit code, a line each; the program's log; the requests of one that
serves."""
_MOST_FILES = 32
"""Of a spawned process, that its parent has opened for it."""
_ABOVE_ALL = 512
"""Numbers of files that no process opens."""
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Program:
    """What is to run.

    arguments: those of Python, ``-m module …``, ``-c code …`` or ``file …``. spawns: processes that it spawns
    are forked from a Python of the same state as its own at its beginning. imported: modules for which it
    forks programs, as this Python does; it runs nothing itself.
    """

    arguments: list[str]
    variables: dict[str, str]
    spawns: bool = False
    imported: Sequence[str] = ()


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
    if program is not None and program.spawns:
        program = serve_spawns() or program
    if program is not None:
        find_paths(program)
        os.execv = lambda _, arguments: become(arguments[1:])  # type: ignore[arg-type]
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
                if requests.fileno() == sys.stdin.fileno():
                    requests.detach()  # or its end would close what becomes this program's standard input
                for open_here in (requests, ended, wake, asking, *running.values()):
                    open_here.close()
                program = begin_anew(json.loads(message), files[1])
                return serve_imported(program, *files[2:]) if program.imported else program
            for file in files[1:]:
                os.close(file)
            running[pid] = asking
            asking.sendall(f"{pid}\n".encode())


def serve_imported(program: Program, requests: int) -> Program | None:
    """As `serve`, with what this program imports. Its environment and its paths are those of the import."""
    before = len(sys.path)
    find_paths(program)
    for module in program.imported:
        import_module(module)
        # Python runs it as a program, and would warn that there is one of that name.
        del sys.modules[module]
    del sys.path[: len(sys.path) - before]
    gc.freeze()
    return serve(socket.socket(fileno=requests))


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
    return _with_its_environment(Program(**message))


def _with_its_environment(program: Program) -> Program:
    os.environ.clear()
    os.environ.update(program.variables)
    return program


def serve_spawns() -> Program | None:
    """Have a helper fork what this process spawns from now on, as children of this process.

    The helper lives until this process ends. Returns in each spawned process, with its program, and in this
    one, with None.
    """
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # A process whose parent ends becomes a child of this one.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.fork() == 0:
        requests.close()
        return _spawned(theirs)
    theirs.close()

    def spawn(_: object, arguments: Sequence[bytes | str], files: Iterable[int]) -> int:
        passed = sorted(files)
        program = {"arguments": _of_python(arguments), "variables": dict(os.environ)}
        message = json.dumps({"program": program, "numbers": passed}).encode()
        socket.send_fds(requests, [message], passed)
        return int(requests.recv(MESSAGE_BYTES))

    from multiprocessing import util

    util.spawnv_passfds = spawn  # type: ignore[assignment]
    return None


def _of_python(command: Sequence[bytes | str]) -> list[str]:
    """From ``-c`` on: what comes before is Python and its own flags."""
    words = [os.fsdecode(word) for word in command]
    return words[words.index("-c") :]


def _spawned(requests: socket.socket) -> Program:
    """Returns in every spawned process; the helper itself ends here."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, _MOST_FILES)
        if not message:
            os._exit(0)
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            break
        os.waitpid(between, 0)
        requests.send(os.read(told, MESSAGE_BYTES))
        for file in (told, tell, *files):
            os.close(file)
    between = os.getpid()
    spawned = os.fork()
    if spawned:
        os.write(tell, str(spawned).encode())
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.001)
    for file in (told, tell, requests.detach()):
        os.close(file)
    asked = json.loads(message)
    _place(files, asked["numbers"])
    return _with_its_environment(Program(**asked["program"]))


def _place(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Give each file its number. One may have the number of another, so all leave theirs first."""
    above = [fcntl.fcntl(file, fcntl.F_DUPFD, _ABOVE_ALL) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(above, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


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
