"""The ten-minutes page with nothing left out: images are built and pushed, and Helm installs.

Other than on the page are the name of the registry, which is a container beside the node, and the bases of
both images, which are local: no public registry need be reachable. The operator of the cluster gives way. A
mirror of Python packages must be reachable.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.tutorial import a_port
from tests.environment.kind_cluster import OPERATOR_NAMESPACE
from tests.environment.place import CLUSTER, DEBIAN_IMAGE, PYTHON_IMAGE
from tests.lifecycle.fresh_machine import mirror_settings
from tests.lifecycle.programs import printed
from tests.lifecycle.releases import CHART, RELEASE, Helm
from tests.lifecycle.ten_minutes import LIVE, SECONDS, found_on_path, running, type_the_page, typing

NAME = "outrider-registry"
IMAGE = "outrider/registry:test"
CONFIGURATION = {
    "version": 0.1,
    "storage": {"filesystem": {"rootdirectory": "/tmp/registry"}},
    "http": {"addr": ":5000"},
}
DOCKERFILE = 'FROM scratch\nCOPY registry config.yml /\nCMD ["/registry", "serve", "/config.yml"]\n'
PORT = 5000
NODE = f"{CLUSTER}-control-plane"
NETWORK = "kind"
HELM = Helm("helm", OPERATOR_NAMESPACE)


def docker(*words: str, stdin: str = "") -> str:
    """What it prints."""
    return printed("docker", *words, stdin=stdin)


@contextmanager
def a_registry(context: Path) -> Iterator[str]:
    """Its address, by which this machine pushes and the node pulls, as in kind's guide to a local registry.

    Docker asks localhost for no certificate. The node has a mirror for that name.
    """
    program, port = os.environ.get("OUTRIDER_REGISTRY"), a_port(PORT)
    if program is None:
        pytest.fail("the registry is not here: run `make test-lifecycle`")
    context.mkdir()
    shutil.copy(program, context / "registry")
    (context / "config.yml").write_text(json.dumps(CONFIGURATION))
    docker("build", "--quiet", "--tag", IMAGE, "--file", "-", str(context), stdin=DOCKERFILE)
    mirrors = f"/etc/containerd/certs.d/localhost:{port}"
    try:
        docker("run", "--detach", "--name", NAME, "--publish", f"127.0.0.1:{port}:5000", IMAGE)
        docker("network", "connect", NETWORK, NAME)
        (found,) = json.loads(docker("inspect", NAME))
        address = found["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]
        docker("exec", NODE, "mkdir", "-p", mirrors)
        into = ("exec", "-i", NODE, "cp", "/dev/stdin", f"{mirrors}/hosts.toml")
        docker(*into, stdin=f'[host."http://{address}:5000"]\n')
        yield f"localhost:{port}"
    finally:
        docker("rm", "--force", "--volumes", NAME)
        docker("exec", NODE, "rm", "-rf", mirrors)


@contextmanager
def no_operator() -> Iterator[None]:
    """The release of the cluster is away in the block, and back afterwards, with its values."""
    values = HELM("get", "values", RELEASE, "--output", "yaml")
    HELM("uninstall", RELEASE, "--wait")
    try:
        yield
    finally:
        HELM("uninstall", RELEASE, "--wait", "--ignore-not-found")
        HELM("install", RELEASE, str(CHART), "--values", "-", "--wait", "--timeout", "180s", stdin=values)


@pytest.mark.timeout(1800)
def test_everything_on_the_page_takes_less_than_ten_minutes(tmp_path: Path) -> None:
    with a_registry(tmp_path / "registry") as registry, no_operator(), running():
        other = {
            "registry.example.com": registry,
            "operator/build.py": f"operator/build.py --base {PYTHON_IMAGE} --python 3.11",
            "engine_image.build plugin": f"engine_image.build plugin --base {DEBIAN_IMAGE}",
        }
        programs = found_on_path("docker", "helm", "kubectl", "uv")
        with typing(tmp_path, programs, other, **mirror_settings()) as typist:
            seconds = type_the_page(typist)
    print(f"steps 1 to 5: {sum(seconds[step] for step in LIVE):.0f} s")
    assert sum(seconds[step] for step in LIVE) < SECONDS
