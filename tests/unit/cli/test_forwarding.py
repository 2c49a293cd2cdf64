"""The way to a model's Service, by a kubectl that is a stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError
from outrider.cli.common.processes import url_of

Kubectl = Callable[[str], None]
PROD = ClusterChoice(namespace="prod")


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    """Puts a shell script of this text on the path, and nothing else that is called so."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    def put(script: str) -> None:
        file = tmp_path / "kubectl"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    return put


async def test_clients_get_the_port_that_kubectl_forwards(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl(
        f'echo "$@" > {tmp_path}/words; echo $$ > {tmp_path}/pid\n'
        'echo "Forwarding from 127.0.0.1:40123 -> 8000"\nexec sleep 600'
    )
    async with url_of(PROD, "m", None) as url:
        assert url == "http://127.0.0.1:40123"
        words = (tmp_path / "words").read_text().split()
        assert words == ["--namespace", "prod", "port-forward", "--address", "127.0.0.1", "service/m", ":80"]
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


async def test_kubectl_forwards_in_the_cluster_that_the_user_chose(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl(f'echo "$@" > {tmp_path}/words\necho "Forwarding from 127.0.0.1:40123 -> 8000"\nexec sleep 600')
    chosen = ClusterChoice("prod", "east", Path("/home/me/config"))
    async with url_of(chosen, "m", None):
        words = (tmp_path / "words").read_text()
    assert words.startswith("--kubeconfig /home/me/config --context east --namespace prod port-forward ")


async def test_what_kubectl_tells_of_every_connection_never_stops_it(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    told, done = "Handling connection for 40123" * 100, tmp_path / "done"
    kubectl(
        'echo "Forwarding from 127.0.0.1:40123 -> 8000"\n'
        f'for i in $(seq 100); do echo "{told}"; echo "{told}" >&2; done\ntouch {done}\nexec sleep 600'
    )
    async with asyncio.timeout(30), url_of(PROD, "m", None):
        while not done.exists():
            await asyncio.sleep(0.01)


async def test_what_kubectl_complains_of_is_told(kubectl: Kubectl) -> None:
    kubectl('echo "error: services \\"m\\" not found" >&2; exit 1')
    with pytest.raises(
        CommandError, match=r'kubectl port-forward: error: services "m" not found\. Or give --url'
    ):
        async with url_of(PROD, "m", None):
            pass


async def test_without_kubectl_a_url_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match=r"kubectl is not here.*give --url"):
        async with url_of(PROD, "m", None):
            pass


async def test_a_url_of_the_users_is_taken_as_it_is() -> None:
    async with url_of(PROD, "m", "https://llm.example.com/v1") as url:
        assert url == "https://llm.example.com"
