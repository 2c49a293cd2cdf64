"""The connection of clients on this machine to a model's Service."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from outrider.cli.common.cluster import CannotRead
from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.processes import running
from outrider.plan.names import SERVICE_PORT

_FORWARDS = re.compile(rb"Forwarding from (127\.0\.0\.1:\d+)")
_BEGIN_SECONDS = 20.0


@asynccontextmanager
async def url_of(cluster: ClusterChoice, name: str, given: str | None) -> AsyncIterator[str]:
    """The URL given, or one on this machine that leads to one pod of the Service ``name`` within the block.

    cluster: with a namespace.

    Raises:
        CannotRead: no kubectl, no right to forward ports, or no pod that serves.
    """
    if given is not None:
        yield given.rstrip("/").removesuffix("/v1")
        return
    if shutil.which("kubectl") is None:
        raise CannotRead(
            "kubectl is not here, and it forwards a port to the model. Install it, or give --url."
        )
    command = ("kubectl", *_cluster_flags(cluster), "port-forward", "--address", "127.0.0.1")
    async with running((*command, f"service/{name}", f":{SERVICE_PORT}")) as forward:
        assert forward.stdout is not None
        assert forward.stderr is not None
        try:
            line = await asyncio.wait_for(forward.stdout.readline(), _BEGIN_SECONDS)
        except TimeoutError as error:
            raise CannotRead(
                f"kubectl port-forward does not answer within {_BEGIN_SECONDS:.0f} s. Give --url."
            ) from error
        found = _FORWARDS.search(line)
        if found is None:
            why = (await forward.stderr.read()).decode(errors="replace").strip()
            raise CannotRead(f"kubectl port-forward: {why or 'it ended'}. Or give --url.")
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
