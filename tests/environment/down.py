"""Takes the local cluster and our own Docker Engine down: `python3 tests/environment/down.py [--cache]`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.environment.place import CLUSTER, Place, Shell, command_environment, locate

CACHED = ("bin", "build", "docker", "engine-env", "logs", "models", "mypy", "tools")
CACHED_FILES = ("kubeconfig", "lock", "setup-times.json", "stages.json")


def main(arguments: Sequence[str]) -> int:
    """Removes the cluster; programs, environments and models stay unless `--cache` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cache", action="store_true", help="also remove everything that the set-up has built"
    )
    options = parser.parse_args(arguments)
    place = locate(os.environ)
    shell = Shell(command_environment(place, os.environ))
    if shell.output("docker", "ps", "-aq", "--filter", f"label=io.x-k8s.kind.cluster={CLUSTER}"):
        print(f"deleting the kind cluster {CLUSTER}")
        if not shell.succeeds("kind", "delete", "cluster", "--name", CLUSTER, timeout=120):
            print("`kind delete cluster` failed; run it by hand to see why", file=sys.stderr)
            return 1
    stop_dockerd(place)
    if options.cache:
        remove_cache(place)
    return 0


def stop_dockerd(place: Place) -> None:
    """Ends the Docker Engine that `up.py` started, and no other."""
    record = place.docker / "pid"
    if not record.exists():
        return
    pid = int(record.read_text())
    if _is_dockerd(pid):
        print(f"stopping the Docker Engine that the set-up started (process {pid})")
        os.kill(pid, signal.SIGTERM)
        for _ in range(120):
            if not _is_dockerd(pid):
                break
            time.sleep(0.25)
        else:
            print("it has not ended after 30 s; its log is docker/log in the cache", file=sys.stderr)
            return
    record.unlink(missing_ok=True)


def remove_cache(place: Place) -> None:
    """Removes what the set-up made, by name: the folder may hold other things."""
    print(f"removing what the set-up built in {place.cache}")
    for name in CACHED:
        shutil.rmtree(place.cache / name, ignore_errors=True)
    for name in CACHED_FILES:
        (place.cache / name).unlink(missing_ok=True)


def _is_dockerd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "dockerd"
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
