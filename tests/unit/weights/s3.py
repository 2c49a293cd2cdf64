"""A server that speaks S3, in a process and an environment of its own, and what tests ask of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from obstore.store import S3Store

SERVER = Path(__file__).with_name("s3_server.py")


@dataclass(frozen=True)
class Server:
    url: str
    key: str
    secret: str

    def environment(self, **more: str) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}
        return {**keys, "AWS_REGION": "us-east-1", **more}

    def put(self, folder: str, objects: Mapping[str, bytes]) -> None:
        store = S3Store(
            "models",
            endpoint=self.url,
            access_key_id=self.key,
            secret_access_key=self.secret,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        for name, content in objects.items():
            store.put(f"{folder}/{name}", content)

    def stall(self, *names: str) -> None:
        """After the first piece. Forgets what was asked."""
        httpx.post(f"{self.url}/-/faults", json=names, verify=False)

    def asked(self) -> list[list[str]]:
        return list(httpx.get(f"{self.url}/-/asked", verify=False).json())


@contextmanager
def a_server(address: str) -> Iterator[Server]:
    uv = os.environ.get("UV") or shutil.which("uv") or shutil.which("uv", path=_tools())
    assert uv, "uv runs the server"
    command = [uv, "run", "--quiet", "--frozen", "--script", str(SERVER), address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Server(**json.loads(process.stdout.readline()))
        finally:
            process.communicate("")


def _tools() -> str:
    cache = os.environ.get("OUTRIDER_CACHE") or Path.home() / ".cache" / "outrider"
    return str(Path(cache) / "tools" / "bin")
