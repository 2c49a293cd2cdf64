"""The operator, and one model, on a cluster of several machines."""

from __future__ import annotations

import yaml

from tests.cluster.annotations import OVERRIDE, OVERRIDE_UNTIL
from tests.lifecycle.nodes import Nodes
from tests.lifecycle.releases import CHART, ROOT, Helm, Values
from tests.lifecycle.stored_models import KIND

MODEL = "m"
HOME = "outrider-system"
ON_ALL_MACHINES = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
}
"""A spread of pods; their selector is missing."""
_VOLUMES = ROOT / "tests" / "environment" / "cluster" / "volumes.yaml"


def install_operator(nodes: Nodes, values: Values) -> None:
    """The present one, by its chart with these values besides, and the volumes of engines."""
    always = {
        "metrics": {"source": "PodScrape"},
        "tuning": {"interval": 5, "scaleSettle": 15},
    }
    helm = Helm("helm", HOME, nodes.environment)
    helm.deploy(CHART, {**always, **values}, "--wait", "--timeout", "180s")
    for manifest in yaml.safe_load_all(_VOLUMES.read_text()):
        nodes.apply(manifest)


def override(nodes: Nodes, k: int) -> None:
    """What a user wants from now on."""
    words = (f"{OVERRIDE}=*:{k}", f"{OVERRIDE_UNTIL}=2100-01-01T00:00:00Z")
    nodes.kubectl("annotate", KIND, MODEL, "--overwrite", *words)
