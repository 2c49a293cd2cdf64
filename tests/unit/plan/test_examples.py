from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from outrider.api.resource import KIND, SpeculativeModel
from tests.unit.plan.factories import a_plan

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_accepted_and_planned(path: Path) -> None:
    manifests = [item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == KIND]
    assert manifests
    for manifest in manifests:
        assert a_plan(SpeculativeModel.model_validate(manifest)).problems == ()
