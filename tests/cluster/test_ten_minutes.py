"""The page that leads from a plain Deployment to live K in ten minutes, word for word.

Step 1 is shortened: images and operator of this cluster exist already, so nothing is built, and Helm makes a
dry run. `tests/lifecycle/test_ten_minutes_from_nothing.py` builds, pushes and installs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.outrider_cli import program
from tests.cluster.ten_minutes import LIVE, SECONDS, found_on_path, running, type_the_page, typing
from tests.environment.place import PLUGIN_IMAGE

pytestmark = pytest.mark.engine("real", "starts")

SHORTENED = {
    "python3 operator/build.py": ": operator/build.py",
    "python3 -m engine_image.build": ": engine_image.build",
    "docker push": ": docker push",
    "uv tool install ./operator": "outrider version",
    "helm install outrider": "helm upgrade --install --dry-run=server outrider",
    "$REGISTRY/outrider-plugin:0.1.0": PLUGIN_IMAGE,
}


def test_a_plain_deployment_is_tuned_within_ten_minutes(tmp_path: Path) -> None:
    programs = {"outrider": program(), **found_on_path("kubectl", "helm")}
    with running(), typing(tmp_path, programs, SHORTENED) as typist:
        seconds = type_the_page(typist)
    assert sum(seconds[step] for step in LIVE) < SECONDS
