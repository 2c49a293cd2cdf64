from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from outrider.api.resource import SpeculativeModel
from outrider.api.tuning import TuningMode
from outrider.cluster.resources import JsonObject
from tests.bench.engine.engines import plain_manifest, speculative_manifest


@pytest.fixture
def example() -> JsonObject:
    found: JsonObject = yaml.safe_load(Path("examples/tiny-draft-model.yaml").read_text())
    return found


def test_the_bench_starts_from_the_hand_table_without_tuning(example: JsonObject) -> None:
    spec = SpeculativeModel.model_validate(speculative_manifest(example)).spec
    assert str(spec.static_schedule()) == "8:5,32:3,*:0"
    assert spec.tuning_mode is TuningMode.OFF


def test_the_plain_engine_differs_in_speculation_alone(example: JsonObject) -> None:
    plain, speculative = plain_manifest(example), speculative_manifest(example)
    assert SpeculativeModel.model_validate(plain).spec.candidates() == (0,)
    assert plain["metadata"]["name"] != speculative["metadata"]["name"]
    without = [{k: v for k, v in one["spec"].items() if k != "speculation"} for one in (plain, speculative)]
    assert without[0] == without[1]
