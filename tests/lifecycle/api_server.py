"""An API server of Kubernetes with its etcd, and nothing else: no node, no controller, up in seconds.

What is applied stays as it is, so a test can be the controller, and break what no shared cluster should lose.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.cluster.kubectl import Object
from tests.ports import free_port

_TOKEN = "of-the-test"
_STORE = "etcd"
_START_SECONDS = 180.0
"""Of a machine that does much besides."""
_END_SECONDS = 20.0


@dataclass(frozen=True)
class ApiServer:
    """One that answers. Its only user may do everything.

    store: address of its etcd. start: begins its programs, which end with `programs`.
    """

    port: int
    folder: Path
    store: str
    start: Callable[[], None]
    programs: ExitStack

    @contextmanager
    def stopped(self) -> Iterator[Path]:
        """In the block neither it nor its etcd runs, which has its files in the folder."""
        self.programs.close()
        try:
            yield self.folder / _STORE
        finally:
            self.start()
            _wait_until_ready(self)

    def kubeconfig(
        self, name: str = "direct", *, port: int | None = None, token: str = _TOKEN, scheme: str = "https"
    ) -> Path:
        """The file of this name. port, scheme: of a proxy on the way. token: of another user."""
        file = self.folder / f"{name}.kubeconfig"
        cluster = {"server": f"{scheme}://127.0.0.1:{port or self.port}", "insecure-skip-tls-verify": True}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "current-context": "it",
        }
        file.write_text(yaml.safe_dump(content))
        return file

    @property
    def environment(self) -> dict[str, str]:
        """For programs that talk to it."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig())}

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl prints.

        Raises:
            AssertionError: it ended with an error, which is the message.
        """
        command, environment = ["kubectl", *words], self.environment
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr.strip()}"
        return done.stdout

    def apply(self, manifest: Mapping[str, Any], *flags: str) -> None:
        """``kubectl apply``."""
        self.kubectl("apply", "-f", "-", *flags, stdin=json.dumps(manifest))

    def get(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """One object, or None where there is none."""
        printed = self.kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return json.loads(printed) if printed.strip() else None

    def until_established(self, definition: str) -> None:
        """Wait until the server accepts objects of a definition.

        `kubectl wait` fails where the definition has no conditions yet.

        Raises:
            AssertionError: it does not within `_START_SECONDS`.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not _is_established(self.get("crd", definition)):
            assert time.monotonic() < deadline, f"{definition} is not established"
            time.sleep(0.1)


def _is_established(definition: Object | None) -> bool:
    conditions = [] if definition is None else definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


@contextmanager
def an_api_server(
    folder: Path, program: str = "kube-apiserver", *, options: Sequence[str] = ()
) -> Iterator[ApiServer]:
    """In the block it answers; afterwards it is gone. folder: an empty one, for its files and logs. program:
    of another release of Kubernetes. options: more flags of the server."""
    store, peers, port = (free_port() for _ in range(3))
    key = folder / "service-accounts.key"
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{_TOKEN},tester,1,system:masters\n")
    etcd = [
        f"--data-dir={folder / _STORE}",
        f"--listen-client-urls=http://127.0.0.1:{store}",
        f"--advertise-client-urls=http://127.0.0.1:{store}",
        f"--listen-peer-urls=http://127.0.0.1:{peers}",
        "--unsafe-no-fsync",
    ]
    server = [
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://lifecycle.test",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        # No controller creates the account "default" that pods would need.
        "--disable-admission-plugins=ServiceAccount",
        *options,
    ]
    with ExitStack() as programs:

        def start() -> None:
            programs.enter_context(running("etcd", etcd, folder / "etcd.log"))
            programs.enter_context(running(program, server, folder / "server.log"))

        start()
        found = ApiServer(port, folder, f"http://127.0.0.1:{store}", start, programs)
        _wait_until_ready(found)
        yield found


@contextmanager
def running(
    program: str, options: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """In the block it runs, and writes to the log."""
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"{program} is not built: `make cluster` builds it where no node image is published")
    with log.open("wb") as stream:
        process = subprocess.Popen([path, *options], stdout=stream, stderr=stream, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(server: ApiServer) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            server.kubectl("get", "--raw", "/readyz")
            server.kubectl("get", "namespace", "default")
        except AssertionError as error:
            if time.monotonic() > deadline:
                log = (server.folder / "server.log").read_text()[-2000:]
                raise AssertionError(f"none within {_START_SECONDS:.0f} s: {error}\n{log}") from error
            time.sleep(0.5)
        else:
            return
