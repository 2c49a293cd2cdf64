from pathlib import Path

import pytest

from tests.environment.choice import Choice, Cluster, Setup
from tests.environment.docker_engine import has_every_capability
from tests.environment.place import Place, Shell, command_environment, locate
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


@pytest.mark.parametrize("cluster", list(Cluster))
def test_every_stage_says_what_to_do_when_it_fails(cluster: Cluster, tmp_path: Path) -> None:
    assert all(make(setup(cluster, tmp_path)).remedy for make in (*STAGES, *ON_REQUEST))


def test_the_cache_moves_with_its_variable(tmp_path: Path) -> None:
    assert locate({"OUTRIDER_CACHE": str(tmp_path)}).cache == tmp_path


def test_commands_see_the_set_up_s_tools_first_and_no_foreign_virtual_environment(tmp_path: Path) -> None:
    place = Place(ROOT, tmp_path)

    environment = command_environment(place, {"PATH": "/bin", "VIRTUAL_ENV": "/elsewhere"})

    assert environment["PATH"].startswith(f"{tmp_path}/bin:{tmp_path}/tools/bin:/bin")
    assert environment["KUBECONFIG"] == str(tmp_path / "kubeconfig")
    assert "VIRTUAL_ENV" not in environment


def test_a_question_to_a_missing_program_has_an_empty_answer() -> None:
    shell = Shell({"PATH": "/nowhere"})

    assert shell.output("no-such-program") == ""
    assert not shell.succeeds("no-such-program")


@pytest.mark.parametrize(
    ("bounding", "complete"),
    [("000001ffffffffff", True), ("000001fffeffffff", False), ("0000003fffffffff", False)],
)
def test_a_missing_capability_is_seen(bounding: str, complete: bool) -> None:
    assert has_every_capability(f"CapEff:\t0\nCapBnd:\t{bounding}\n", "40\n") is complete


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
