"""Releases of Outrider: the present one, an older one, and the Helm that brings them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.environment.place import CLUSTER, OPERATOR_IMAGE, PYTHON_IMAGE

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "outrider"
RELEASE = "outrider"
CRD = "speculativemodels.outrider.dev"

OLDER_COMMIT = "fa280a661152cb3c48c02536b7af14a1b1c9a6e6"
"""The oldest whose fields the definition has. Once there is a release, its tag."""
OLDER_IMAGE = "outrider/operator:older"

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Helm:
    """One Helm on one release. environment: with the KUBECONFIG of its cluster."""

    program: str
    namespace: str
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def __call__(self, *words: str, stdin: str = "") -> str:
        """What it prints.

        Raises:
            AssertionError: it ended with an error, which is the message.
        """
        command = [self.program, *words, "--namespace", self.namespace]
        environment = dict(self.environment)
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr.strip()}"
        return done.stdout

    def deploy(self, chart: Path, values: Values, *flags: str) -> None:
        """Install or upgrade the release, with these values alone; the chart has no default for its image."""
        always = ("upgrade", "--install", RELEASE, str(chart), "--create-namespace", "--reset-values")
        with_image = {**image_values(OPERATOR_IMAGE), **values}
        self(*always, "--values", "-", *flags, stdin=json.dumps(with_image))


def image_values(image: str) -> Values:
    """The values of the chart for an image of the operator."""
    repository, _, tag = image.rpartition(":")
    return {"image": {"repository": repository, "tag": tag}}


def check_out(folder: Path, commit: str = OLDER_COMMIT) -> Path:
    """The tree of an older release in this folder."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        pytest.fail(f"the history is not here (`git fetch --unshallow`): {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def chart_of(tree: Path) -> Path:
    """Its chart."""
    return tree / "charts" / "outrider"


def load_operator_of(tree: Path) -> None:
    """Build the operator of the older release by its own program, and give it to the cluster's node."""
    build = (sys.executable, "operator/build.py", "--tag", OLDER_IMAGE, "--base", PYTHON_IMAGE)
    load = ("kind", "load", "docker-image", "--name", CLUSTER, OLDER_IMAGE)
    for command in ((*build, "--python", "3.11"), load):
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()[-2000:]}"
