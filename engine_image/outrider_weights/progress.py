"""Reports over HTTP how far a download is: the Job's pod may not write to the cluster.

Every client that reaches the pod may ask: the answer is two public numbers. So what an answer costs
is bounded here, and with the chart's ``networkPolicy.enabled`` only the operator reaches the port.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/progress"
MAX_CONNECTIONS = 8
"""At a time; the operator has one. Others are closed at once."""
CONNECTION_SECONDS = 5.0
"""The longest life of a connection, whatever its client sends or does not."""
FRESH_SECONDS = 1.0
"""A look walks through the folders of the volume, and is not taken again before."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes."""

    done: int
    total: int


class Looks:
    """One look at a time, and at most one per `FRESH_SECONDS`, for all who ask. clock: in seconds."""

    def __init__(self, look: Callable[[], Progress], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, Progress] | None = None

    def __call__(self) -> Progress:
        """The newest look."""
        with self._lock:
            if self._last is None or self._clock() - self._last[0] >= FRESH_SECONDS:
                found = self._look()
                self._last = (self._clock(), found)
            return self._last[1]


class _Server(ThreadingHTTPServer):
    """Takes `MAX_CONNECTIONS` at a time and ends each after `CONNECTION_SECONDS`."""

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(("", port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(CONNECTION_SECONDS, _end, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about a client that goes away in the middle."""


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def served(look: Callable[[], Progress], port: int) -> Iterator[int]:
    """Answer ``GET /progress`` with what ``look`` says, and yield the port. port: 0 for any free one."""
    looks = Looks(look)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != PATH:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = json.dumps(asdict(looks())).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Every look of the operator would be a line of the log."""

    server = _Server(port, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
