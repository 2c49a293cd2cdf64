"""A server with the few routes of the Hugging Face hub that a download uses."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".bin")


@dataclass
class Hub:
    """One repository per name. revisions: branch or tag -> commit, of all of them."""

    repositories: Mapping[str, Mapping[str, bytes]]
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT, COMMIT: COMMIT})
    damaged: set[str] = field(default_factory=set)
    """Files that arrive with other bytes."""
    stalled: set[str] = field(default_factory=set)
    """Files of which half arrives, and then nothing."""
    token: str | None = None
    """Without it nothing is returned."""
    url: str = ""
    sent: list[str] = field(default_factory=list)
    """Files whose content was asked for."""
    waiting: threading.Event = field(default_factory=threading.Event)
    """A stalled file was asked for."""
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def a_hub(hub: Hub, *, address: str = "127.0.0.1") -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self._answer(401, {"error": "who are you?"})
            path, _, _ = self.path.partition("?")
            parts = path.strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                return self._api("/".join(parts[2:4]), parts[4:])
            if len(parts) < 5 or parts[2] != "resolve":
                return self._answer(404, {"error": "no such route"})
            return self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

        def _api(self, name: str, rest: list[str]) -> None:
            if name not in hub.repositories:
                return self._answer(404, {"error": "no such repository"}, {"X-Error-Code": "RepoNotFound"})
            commit = hub.revisions.get(rest[1] if len(rest) > 1 else "main")
            if commit is None:
                return self._answer(404, {"error": "no such revision"}, {"X-Error-Code": "RevisionNotFound"})
            if rest[:1] == ["tree"]:
                return self._answer(200, [entry(*item) for item in hub.repositories[name].items()])
            return self._answer(200, {"id": name, "sha": commit, "siblings": []})

        def _file(self, name: str, commit: str, file: str) -> None:
            content = hub.repositories[name][file]
            told = {
                "X-Repo-Commit": commit,
                "ETag": f'"{digest(file, content)}"',
                "Accept-Ranges": "bytes",
                "Content-Length": str(len(content)),
            }
            if self.command == "HEAD":
                return self._send(200, b"", told)
            hub.sent.append(file)
            if file in hub.damaged:
                content = bytes(reversed(content))
            if file not in hub.stalled:
                return self._send(200, content, told)
            self._send(200, content[: len(content) // 2], told)
            self.wfile.flush()
            hub.waiting.set()
            hub.released.wait(60)
            self.close_connection = True
            return None

        def _answer(self, status: int, body: object, more: Mapping[str, str] = {}) -> None:
            content = json.dumps(body).encode()
            self._send(status, content, {"Content-Length": str(len(content)), **more})

        def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer((address, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://{address}:{server.server_address[1]}"
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        server.server_close()


def entry(file: str, content: bytes) -> dict[str, object]:
    """A line of the tree."""
    told: dict[str, object] = {
        "type": "file",
        "path": file,
        "size": len(content),
        "oid": hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest(),
    }
    if file.endswith(LARGE):
        told["lfs"] = {"oid": digest(file, content), "size": len(content), "pointerSize": 120}
    return told


def digest(file: str, content: bytes) -> str:
    if file.endswith(LARGE):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
