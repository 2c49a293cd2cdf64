"""The page for teams that already run vLLM: its commands, typed word for word, and the way there and back."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from outrider.api.engines import ADMISSIONS, RuntimeKind
from outrider.cli.main import app
from outrider.importing.sources import SOURCES
from outrider.runtimes.vllm.flags import FLAGS
from tests.unit.docs.pages import ROOT, text_of

PAGE = text_of("docs/guide/from-a-deployment.md")
SOURCE = "examples/from-a-deployment/deployment.yaml"
COMMANDS = re.findall(r"^ *(outrider (?:import|render) .+)$", PAGE, re.M)


def typed(line: str) -> str:
    """What a shell in the repository prints."""
    words = shlex.split(line)
    file = None
    if ">" in words:
        words, file = words[: words.index(">")], words[-1]
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.stderr
    if file is not None:
        Path(file).write_text(result.stdout, encoding="utf-8")
    return result.stdout + result.stderr


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert [line.split()[1] for line in COMMANDS] == ["import", "render"]
    printed = [typed(line) for line in COMMANDS]
    assert "name: chat-tuned" in printed[1]


def test_the_page_shows_what_the_import_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = f"outrider import -f {SOURCE}"
    assert f"$ {command}\n{typed(command)}```" in PAGE


def objects() -> tuple[dict[str, Any], dict[str, Any]]:
    deployment, service = yaml.safe_load_all(text_of(SOURCE))
    return deployment, service


def test_the_way_there_and_back_changes_the_selector_of_the_old_service() -> None:
    deployment, service = objects()
    patches = [json.loads(patch)[0] for patch in re.findall(r"-p '(.+)'", PAGE)]
    assert [patch["path"] for patch in patches] == ["/spec/selector"] * 2
    assert patches[0]["value"] == {"outrider.dev/model": "chat-tuned"}
    assert patches[1]["value"] == service["spec"]["selector"]
    assert f"--replicas={deployment['spec']['replicas']}" in PAGE


def test_the_route_leads_to_both_services() -> None:
    route = yaml.safe_load(text_of("examples/from-a-deployment/httproute.yaml"))
    backends = route["spec"]["rules"][0]["backendRefs"]
    assert [(each["name"], each["port"]) for each in backends] == [("chat", 8000), ("chat-tuned", 80)]


def test_the_page_has_every_kind_of_source_and_only_flags_that_there_are() -> None:
    for source in SOURCES:
        assert source.name.partition(" of ")[0] in PAGE
    rows = re.findall(r"^\| (`--.+?) \|", PAGE, re.M)
    named = {flag for row in rows for flag in re.findall(r"--([a-z-]+)(?!\*)\b", row)}
    assert named - {"ssl"} <= FLAGS.flags.keys() | ADMISSIONS[RuntimeKind.VLLM].owned_flags.keys()
