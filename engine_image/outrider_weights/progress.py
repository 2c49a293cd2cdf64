"""Tells over HTTP how far a download is: the Job's pod may not write to the cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATH = "/progress"


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes."""

    done: int
    total: int


@contextmanager
def served(look: Callable[[], Progress], port: int) -> Iterator[int]:
    """Answer ``GET /progress`` with what ``look`` says, and yield the port. port: 0 for any free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != PATH:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = json.dumps(asdict(look())).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Every look of the operator would be a line of the log."""

    server = ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
