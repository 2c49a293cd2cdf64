"""A Debian machine that has nothing yet but its base, Go, and the slow part of the cache.

It is a privileged container on a network of its own. The Docker Engine of the set-up, its images and its
cluster are inside, so nothing in it meets the cluster outside, and all of it ends with the container. The
base is `DEBIAN_IMAGE`: less than an installer leaves. What takes a quarter of an hour is given: the programs
built from Go modules as a copy, vLLM and the padded models read-only. How this machine reaches package
mirrors holds inside, too: certificates, proxies and pip's own configuration.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environment.choice import Cluster, Setup
from tests.environment.place import DEBIAN_IMAGE, locate
from tests.environment.runner import StageError
from tests.environment.up import survey
from tests.lifecycle.programs import printed

ROOT = Path(__file__).resolve().parents[2]
HOME = Path("/root")
"""Of the user of the container."""

_CACHE = HOME / ".cache" / "outrider"
_LENT = ("engine-env", "models")
_COPIED = ("bin", "stages.json")
"""The set-up links programs into its builds, which takes one file system."""
_BUNDLE = "outrider.bundle"
_TRUSTED = Path("/usr/local/share/ca-certificates")
_FILES = (_TRUSTED, Path("/etc/pip.conf"))
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")
_VARIABLES = (
    *_PROXIES,
    *(name.upper() for name in _PROXIES),
    *("SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"),
)
_ANSWERS = 'APT::Get::Assume-Yes "true";\n'
"""There is no terminal at which a question could be answered."""


@dataclass(frozen=True)
class FreshMachine:
    """One that runs. container: its id."""

    container: str

    def runs(self, *command: str | Path, stdin: str = "") -> str:
        """What it prints.

        Raises:
            AssertionError: it failed. The message is what it said.
        """
        return printed("docker", "exec", "-i", self.container, *map(str, command), stdin=stdin)

    def takes(self, path: Path, folder: Path) -> None:
        """A copy of a file or folder of this machine into a folder of its own."""
        printed("docker", "cp", str(path), f"{self.container}:{folder}")

    @contextmanager
    def shell(self) -> Iterator[subprocess.Popen[str]]:
        """In the user's home. It ends where a command fails, and with the block."""
        command = ["docker", "exec", "-i", "-w", str(HOME), self.container, "bash", "-e"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as shell:
            try:
                yield shell
            finally:
                shell.kill()


@contextmanager
def a_fresh_machine(folder: Path) -> Iterator[FreshMachine]:
    """In the block it runs, with the last commit as a bundle of git in the user's home. folder: for that."""
    setup = _setup()
    bundle = folder / _BUNDLE
    printed("git", "-C", str(ROOT), "bundle", "create", "--quiet", str(bundle), "HEAD")
    container = printed("docker", "run", "--detach", "--privileged", *_given(setup), DEBIAN_IMAGE,
                         "sleep", "infinity").strip()  # fmt: skip
    try:
        machine = FreshMachine(container)
        machine.takes(bundle, HOME)
        for name in _COPIED:
            machine.takes(setup.place.cache / name, _CACHE)
        machine.runs("tee", "/etc/apt/apt.conf.d/answers", stdin=_ANSWERS)
        machine.runs("update-ca-certificates")
        yield machine
    finally:
        printed("docker", "rm", "--force", "--volumes", container)


def clone() -> str:
    """What puts the repository into the folder `outrider`, and goes there."""
    return f"git clone --quiet --config advice.detachedHead=false {_BUNDLE} outrider\ncd outrider"


def _given(setup: Setup) -> Iterator[str]:
    go = setup.shell.output("go", "env", "GOROOT")
    folders = {Path(go): Path("/usr/local/go")}
    folders |= {setup.place.cache / name: _CACHE / name for name in _LENT}
    folders |= {path: path for path in _FILES if path.exists()}
    for here, there in folders.items():
        yield from ("--volume", f"{here}:{there}:ro")
    # The layers of images cannot lie on the layers of a container.
    yield from ("--volume", str(_CACHE / "docker"))
    for name in mirror_settings():
        yield from ("--env", name)


def mirror_settings() -> dict[str, str]:
    """The variables by which this machine reaches mirrors, as far as they are set."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def _setup() -> Setup:
    try:
        setup = survey(locate(os.environ))
    except StageError as error:
        pytest.fail(str(error))
    if setup.choice.cluster is not Cluster.LOCAL:
        pytest.skip("the programs of a node are built for the local cluster alone, and take ten minutes")
    return setup
