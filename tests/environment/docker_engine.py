"""The stage that makes sure a Docker Engine runs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.environment.choice import Cluster, Setup
from tests.environment.runner import Stage, StageError, Work

DOCKER_REMEDY = "`docker info` must work; the Docker Engine's own log is docker/log in the cache"


def docker_engine(setup: Setup) -> Stage:
    def start(work: Work) -> None:
        if setup.shell.succeeds("docker", "info"):
            work.progress("in use: the one that runs")
            return
        start_dockerd(setup, work)

    return Stage(
        name="docker engine",
        run=start,
        key=lambda: "running",
        present=lambda: setup.shell.succeeds("docker", "info"),
        needs=("debian packages",),
        remedy=DOCKER_REMEDY,
    )


def start_dockerd(setup: Setup, work: Work) -> None:
    """Starts Docker Engine as a daemon that outlives this process; `make clean` ends it."""
    if setup.choice.cluster is not Cluster.LOCAL:
        raise StageError("the Docker Engine does not answer")
    folder = setup.place.docker
    path = setup.shell.environment["PATH"]
    if not has_every_capability(
        Path("/proc/self/status").read_text(), Path("/proc/sys/kernel/cap_last_cap").read_text()
    ):
        # kind runs its nodes privileged; runc refuses to grant what the host itself lacks.
        path = f"{setup.place.here / 'docker'}:{path}"
        work.note("this machine lacks a capability: runc through docker/runc")
    data = [
        "--data-root",
        str(folder / "data"),
        "--exec-root",
        str(folder / "exec"),
        "-p",
        str(folder / "pid"),
    ]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            ["dockerd", *data],
            env={**setup.shell.environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    for _ in range(120):
        if setup.shell.succeeds("docker", "info"):
            work.progress("started")
            return
        if process.poll() is not None:
            break
        time.sleep(0.5)
    work.note((folder / "log").read_text(errors="replace")[-3000:])
    raise StageError("dockerd did not become ready")


def has_every_capability(status: str, last: str) -> bool:
    """Whether the bounding set in /proc/self/status holds every capability up to number `last`."""
    bounding = next(int(row.split()[1], 16) for row in status.splitlines() if row.startswith("CapBnd:"))
    every = (1 << (int(last) + 1)) - 1
    return bounding & every == every
