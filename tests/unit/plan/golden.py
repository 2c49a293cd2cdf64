"""Golden plans: ``golden/<case>/in.yaml`` is planned and compared with ``out.yaml``.

``order.yaml`` beside it is the tuner's order about the launch, as a ConfigMap has it. ``peers.yaml`` says who
the operator's pods are, and who else may come to engines, where NetworkPolicies are wanted.

``python -m tests.unit.plan.golden --write`` writes what the planner says today; read the diff.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from outrider.api.launch import LaunchOrder
from outrider.api.resource import SpeculativeModel
from outrider.plan import PlanSettings, plan
from outrider.plan.network_peers import ControlPeers
from outrider_protocol.releases import RELEASES
from tests.unit.plan.factories import KEYS

FOLDER = Path(__file__).parent / "golden"
SETTINGS = PlanSettings(engine_images={release: f"outrider/engine:{release}" for release in RELEASES})


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def cases() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob("*/in.yaml"))


def read_model(case: str) -> SpeculativeModel:
    return SpeculativeModel.model_validate(yaml.safe_load((FOLDER / case / "in.yaml").read_text()))


def read_order(case: str) -> LaunchOrder:
    path = FOLDER / case / "order.yaml"
    return LaunchOrder.from_data(yaml.safe_load(path.read_text())) if path.exists() else LaunchOrder()


def read_settings(case: str) -> PlanSettings:
    path = FOLDER / case / "peers.yaml"
    if not path.exists():
        return SETTINGS
    peers = yaml.safe_load(path.read_text())
    clients = tuple(peers["clients"])
    return replace(SETTINGS, control_peers=ControlPeers(peers["namespace"], peers["labels"], clients))


def expected(case: str) -> str:
    return (FOLDER / case / "out.yaml").read_text()


def planned(case: str) -> str:
    result = plan(read_model(case), settings=read_settings(case), keys=KEYS, order=read_order(case))
    content = {
        "revision": result.revision,
        "problems": [{"reason": reason.value, "message": message} for reason, message in result.problems],
        "children": list(result.children),
    }
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=250)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.plan.golden")
    parser.add_argument("--write", action="store_true", help="overwrite the expected plans")
    if not parser.parse_args(arguments).write:
        parser.error("nothing to do; pass --write, then read the diff")
    for case in cases():
        (FOLDER / case / "out.yaml").write_text(planned(case))


if __name__ == "__main__":
    main()
