"""The tutorial, word for word: what stands on the page is typed, and what it promises comes.

The model is the stand-in instead of the tiny one, since it starts in a third of the time; so names, a port
and the path of the manifest are others.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.kubectl import wait_for
from tests.cluster.models import model, read_twin, wait_until_all_is_given_up
from tests.unit.docs.pages import ROOT, text_of

pytestmark = [pytest.mark.engine("twin", "starts")]

NAME, SERVED = "tutorial", "simulated-tutorial"
PAGE = text_of("docs/guide/tutorial.md")


def steps() -> dict[str, str]:
    """What is typed in each numbered step."""
    sections = re.split(r"^### (\d)\. .*$", PAGE, flags=re.M)[1:]
    return {
        number: "".join(re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S))
        for number, text in zip(sections[::2], sections[1::2], strict=True)
    }


@dataclass(frozen=True)
class Typist:
    """A shell in the repository that lives as long as the tutorial."""

    shell: subprocess.Popen[str]
    manifest: Path
    port: int

    def types(self, number: str) -> str:
        """A step, and what it prints. Fails where a command of it does."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(self._as_here(steps()[number]) + "\necho; echo 'end of step'\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line == "end of step\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"step {number} ended early: {''.join(lines)}")

    def _as_here(self, text: str) -> str:
        text = text.replace("examples/tiny-draft-model.yaml", str(self.manifest))
        text = text.replace('"model": "tiny"', f'"model": "{SERVED}"')
        return re.sub(r"\btiny\b", NAME, text).replace("8080", str(self.port))


@pytest.fixture(scope="module")
def typist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    manifest = read_twin()
    manifest["metadata"]["name"] = NAME
    manifest["spec"]["model"]["servedName"] = SERVED
    path = tmp_path_factory.mktemp("tutorial") / "model.yaml"
    path.write_text(json.dumps(manifest))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with subprocess.Popen(
        ["bash", "-e"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            yield Typist(shell, path, port)
        finally:
            os.killpg(shell.pid, 15)
            subprocess.run(["kubectl", "delete", "specmodel", NAME, "--ignore-not-found"], check=False)
            wait_until_all_is_given_up(NAME)


def test_every_step_of_the_tutorial_does_what_it_says(typist: Typist) -> None:
    assert sorted(steps()) == ["1", "2", "3", "4", "5", "6"]
    assert f"{NAME} condition met" in typist.types("1")
    answers = typist.types("2")
    assert '"object":"text_completion"' in answers
    assert '"object":"chat.completion"' in answers
    typist.types("3")
    wait_for(
        "the load was answered by another table",
        lambda: model(NAME),
        lambda seen: bool(((seen or {}).get("status") or {}).get("decisions")),
        seconds=60,
    )
    told = typist.types("4")
    assert f"default/{NAME}: Serving, 1/1 pods" in told
    assert "Last decisions" in told
    assert "Paused" in typist.types("5")
    typist.types("6")
