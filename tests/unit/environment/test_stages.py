from pathlib import Path

import pytest

from tests.environment.choice import Choice, Cluster, Setup
from tests.environment.place import Place, Shell
from tests.environment.toolchain import models
from tests.environment.up import ON_REQUEST, STAGES

ROOT = Path(__file__).resolve().parents[3]


def setup(cluster: Cluster, cache: Path) -> Setup:
    choice = Choice(cluster, "kind-outrider", "a test says so")
    return Setup(Place(ROOT, cache), Shell({"PATH": "/nowhere"}), choice)


@pytest.mark.parametrize("cluster", list(Cluster))
def test_every_stage_comes_after_what_it_needs(cluster: Cluster, tmp_path: Path) -> None:
    seen: set[str] = set()
    for make in (*STAGES, *ON_REQUEST):
        stage = make(setup(cluster, tmp_path))
        assert seen.issuperset(stage.needs), stage.name
        seen.add(stage.name)


def test_the_models_are_made_again_when_their_chat_template_changes(tmp_path: Path) -> None:
    shipped = tmp_path / "examples" / "models" / "weights" / "target" / "tokenizer_config.json"
    shipped.parent.mkdir(parents=True)
    place = Place(tmp_path, tmp_path / "cache")
    choice = Choice(Cluster.LOCAL, "kind-outrider", "a test says so")
    stage = models(Setup(place, Shell({"PATH": "/nowhere"}), choice))
    shipped.write_text('{"chat_template": "old"}')
    before = stage.key()
    shipped.write_text('{"chat_template": "new"}')
    assert stage.key() != before
