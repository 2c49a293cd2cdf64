"""An API server on this machine for one command, and a kubeconfig that leads to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Body = dict[str, Any]


@dataclass
class Kubernetes:
    """What the server has, and what it was asked."""

    objects: dict[str, Any] = field(default_factory=dict)
    """By path without the query; text is answered as it is."""
    refused: Callable[[str, str], bool] = lambda *_: False
    """Whether the caller has no right to it."""
    review: Callable[[Body], bool] = lambda _: True
    """What is said to a question about rights: its `spec`."""
    asked: list[str] = field(default_factory=list)
    """Method and path of every request, with the query."""
    written: list[tuple[str, str, Body]] = field(default_factory=list)
    """Method, path and body of every write."""

    def answer(self, method: str, path: str, body: Body | None) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        bare = path.split("?")[0]
        if self.refused(method, bare):
            return 403, {"message": f"{bare} is forbidden"}
        if bare.endswith("accessreviews") and body is not None:
            return 201, {**body, "status": {"allowed": self.review(body["spec"])}}
        if method in ("PATCH", "POST", "DELETE"):
            self.written.append((method, bare, body or {}))
        if bare not in self.objects:
            return 404, {"message": "not there"}
        return 200, self.objects[bare]


@contextmanager
def serving(cluster: Kubernetes, folder: Path, *, namespace: str = "default") -> Iterator[dict[str, str]]:
    """The environment of a command that finds this cluster. namespace: of its context."""

    class Requests(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = cluster.answer(self.command, self.path, body)
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Quiet."""

    class Server(ThreadingHTTPServer):
        # `doctor` asks about all its rights at once, and a connection that finds no room waits for seconds.
        request_queue_size = 128
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Requests)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    file = folder / "kubeconfig"
    url = f"http://127.0.0.1:{server.server_port}"
    file.write_text(json.dumps(a_kubeconfig(url, namespace=namespace)), encoding="utf-8")
    try:
        yield {"KUBECONFIG": str(file)}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def a_list(*items: Body) -> Body:
    """Objects as the API server lists them."""
    return {"items": list(items), "metadata": {"resourceVersion": "1"}}


def a_kubeconfig(url: str, *, namespace: str) -> Body:
    """One context with one namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "current-context": "x",
    }
