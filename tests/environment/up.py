"""Builds what is missing and brings the local cluster up: `python3 tests/environment/up.py [--until STAGE]`.

Plain Python 3.11 without packages, because it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.environment import docker_engine, images, kind_cluster, toolchain
from tests.environment.choice import Setup, choose
from tests.environment.place import KUBERNETES, Place, Shell, command_environment, locate
from tests.environment.records import Records
from tests.environment.runner import Runner, Stage, StageError, upto
from tests.environment.screen import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

STAGES = (
    toolchain.machine,
    toolchain.packages,
    toolchain.uv,
    toolchain.workspace,
    docker_engine.docker_engine,
    images.debian_image,
    images.base_images,
    toolchain.engine_environment,
    toolchain.models,
    toolchain.sglang_environment,
    images.project_images,
    toolchain.kubernetes_programs,
    toolchain.cluster_programs,
    toolchain.promtool,
    images.prometheus_image,
    toolchain.adapter_program,
    images.adapter_image,
    images.node_image,
    kind_cluster.cluster,
    kind_cluster.loaded_images,
    kind_cluster.volumes,
    kind_cluster.prometheus,
    kind_cluster.adapter,
    kind_cluster.operator,
)
ON_REQUEST = (toolchain.vale,)
"""Stages that no cluster needs: they run only with `--until`."""


def main(arguments: Sequence[str]) -> int:
    """0 when everything is up, 1 when a stage failed, 130 when interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--until", metavar="STAGE", help="only this stage and what it needs")
    parser.add_argument("--list", action="store_true", help="print the stages and end")
    options = parser.parse_args(arguments)
    place = locate(os.environ)
    place.make_folders()
    try:
        setup = survey(place)
        named = options.until is not None or options.list
        makers = (*STAGES, *ON_REQUEST) if named else STAGES
        stages = upto([make(setup) for make in makers], options.until)
    except StageError as error:
        print(error, file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(f"{stage.name:<24}needs {', '.join(stage.needs) or 'nothing'}" for stage in stages))
        return 0
    print(f"cluster: {setup.choice.cluster}, context {setup.choice.context} ({setup.choice.reason})")
    with alone(place):
        return 0 if bring_up(setup, stages) else 1


def survey(place: Place) -> Setup:
    """Looks at the machine and chooses the cluster."""
    shell = Shell(command_environment(place, os.environ))
    choice = choose(
        os.environ,
        foreign_docker=lambda: not (place.docker / "pid").exists() and shell.succeeds("docker", "info"),
        registry=lambda: shell.succeeds(
            "docker", "manifest", "inspect", f"kindest/node:{KUBERNETES}", timeout=15
        ),
    )
    return Setup(place, shell, choice)


def bring_up(setup: Setup, stages: Sequence[Stage]) -> bool:
    """Runs the stages and writes setup-times.json, also after a failure."""
    place = setup.place
    records = Records(stamps=place.cache / "stages.json", times=place.cache / "setup-times.json")
    screen = Lines([stage.name for stage in stages], sys.stdout, time.monotonic)
    runner = Runner(records, screen, place.logs, setup.shell.environment, time.monotonic)
    began = time.monotonic()
    try:
        return runner.run(stages)
    finally:
        total = time.monotonic() - began
        records.close(total, setup.choice.cluster)
        print(f"{total:.0f} s in all; times: {place.cache / 'setup-times.json'}")


@contextmanager
def alone(place: Place) -> Iterator[None]:
    """One set-up at a time per cache; a second one waits and then finds everything present."""
    with (place.cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another set-up that uses the same cache")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
