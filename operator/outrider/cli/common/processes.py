"""Programs that a command starts and ends, its own end on a signal, and a port of a model."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError
from outrider.plan.names import SERVICE_PORT

_END_SECONDS = 5.0


@asynccontextmanager
async def running(command: Sequence[str]) -> AsyncIterator[Process]:
    """The program in a process group of its own; after the block all its processes are gone.

    Raises:
        FileNotFoundError: the program does not exist.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.communicate(), _END_SECONDS)
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    """Signal the children too, which may outlive the program."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ResultT = TypeVar("ResultT")


def run_until_stopped(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run the work. Ctrl-C, a terminal that closes and an ordinary kill cancel it, and wait for its end.

    A second signal changes nothing, since the work is undoing what it changed.
    """

    async def stoppable() -> ResultT:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def stop() -> None:
            if not task.cancelling():
                task.cancel()

        for number in _SIGNALS:
            # Under nohup a terminal that closes is meant to be ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, stop)
        return await task

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError as error:
        raise CommandError("stopped") from error


_FORWARDS = re.compile(rb"Forwarding from (127\.0\.0\.1:\d+)")
_BEGIN_SECONDS = 20.0


@asynccontextmanager
async def url_of(cluster: ClusterChoice, name: str, given: str | None) -> AsyncIterator[str]:
    """The URL given, or one on this machine that leads to one pod of the Service ``name`` within the block.

    cluster: with a namespace.
    """
    if given is not None:
        yield given.rstrip("/").removesuffix("/v1")
        return
    if shutil.which("kubectl") is None:
        raise CommandError(
            "kubectl is not here, and it forwards a port to the model. Install it, or give --url."
        )
    command = ("kubectl", *_cluster_flags(cluster), "port-forward", "--address", "127.0.0.1")
    async with running((*command, f"service/{name}", f":{SERVICE_PORT}")) as forward:
        assert forward.stdout is not None
        assert forward.stderr is not None
        try:
            line = await asyncio.wait_for(forward.stdout.readline(), _BEGIN_SECONDS)
        except TimeoutError as error:
            raise CommandError(
                f"kubectl port-forward does not answer within {_BEGIN_SECONDS:.0f} s. Give --url."
            ) from error
        found = _FORWARDS.search(line)
        if found is None:
            why = (await forward.stderr.read()).decode(errors="replace").strip()
            raise CommandError(f"kubectl port-forward: {why or 'it ended'}. Or give --url.")
        # kubectl writes a line for each connection, and would wait once a pipe is full.
        readers = [asyncio.create_task(stream.read()) for stream in (forward.stdout, forward.stderr)]
        try:
            yield f"http://{found[1].decode()}"
        finally:
            for reader in readers:
                reader.cancel()


def _cluster_flags(cluster: ClusterChoice) -> tuple[str, ...]:
    """kubectl's flags for the same cluster and namespace."""
    given = {
        "--kubeconfig": cluster.kubeconfig,
        "--context": cluster.context,
        "--namespace": cluster.namespace,
    }
    return tuple(str(word) for pair in given.items() if pair[1] is not None for word in pair)
