"""The tutorial, word for word, with the tools that it lists: it is typed, and what it promises comes.

Three things are others. The manifest is that of the stand-in, under the name of the tiny model: it starts in
a third of the time and leaves the cores to other tests, but answers to a name that says simulated. `make
cluster` says what it would do, since the cluster of the tests is up. A port that is taken here becomes a free
one. In `tests/lifecycle/test_tutorial_in_a_container.py` nothing is other.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.fresh_debian import link_programs
from tests.cluster.kubectl import wait_for
from tests.cluster.models import model, read_twin, wait_until_all_is_given_up
from tests.cluster.tutorial import NAME, PORT, Typist, a_port, a_shell, listed, steps
from tests.environment.place import locate
from tests.unit.docs.pages import ROOT

pytestmark = [pytest.mark.engine("twin", "starts")]

SERVED = "simulated-tiny"
MANIFEST = Path("examples/tiny-draft-model.yaml")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user who has nothing but what the set-up left."""
    cache = tmp_path / "home" / ".cache"
    cache.mkdir(parents=True)
    (cache / "outrider").symlink_to(locate(os.environ).cache)
    return cache.parent


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """This one, with the stand-in in place of the tiny model."""
    folder = tmp_path / "outrider"
    (folder / MANIFEST).parent.mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name != MANIFEST.parts[0]:
            (folder / entry.name).symlink_to(entry)
    manifest = read_twin()
    manifest["metadata"]["name"] = NAME
    manifest["spec"]["model"]["servedName"] = SERVED
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def typist(tmp_path: Path, home: Path, repository: Path) -> Iterator[Typist]:
    (tmp_path / "bin").mkdir()
    tools = link_programs(listed(), tmp_path / "bin")
    instead = {
        "make cluster": "make --dry-run cluster",
        f'"model": "{NAME}"': f'"model": "{SERVED}"',
        str(PORT): str(a_port(PORT)),
    }
    try:
        with a_shell(repository, HOME=str(home), PATH=str(tools)) as shell:
            yield Typist(shell, instead)
    finally:
        subprocess.run(["kubectl", "delete", "specmodel", NAME, "--ignore-not-found"], check=False)
        wait_until_all_is_given_up(NAME)


def test_every_step_of_the_tutorial_does_what_it_says(typist: Typist) -> None:
    assert sorted(steps()) == ["0", "1", "2", "3", "4", "5", "6"]
    assert "tests/environment/up.py" in typist.takes("0")
    assert f"{NAME} condition met" in typist.takes("1")
    answers = typist.takes("2")
    assert '"object":"text_completion"' in answers
    assert '"object":"chat.completion"' in answers
    typist.takes("3")
    wait_for(
        "the load was answered by another table",
        lambda: model(NAME),
        lambda seen: bool(((seen or {}).get("status") or {}).get("decisions")),
        seconds=60,
    )
    told = typist.takes("4")
    assert f"default/{NAME}: Serving, 1/1 pods" in told
    assert "Last decisions" in told
    assert "Paused" in typist.takes("5")
    typist.takes("6")
