"""The launcher's look at the paths."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from engine_image.build import Target, library_commands
from outrider_engine import launch
from outrider_engine.http.termination_message import TERMINATION_LOG_VARIABLE
from outrider_engine.launch import CUBINS, EXIT_CONFIG, main
from outrider_engine.vllm_adapter.attention import speculative_config, without_adaptive
from outrider_engine.vllm_adapter.processes import API_SERVER, HEADLESS
from outrider_protocol.releases import ADAPTIVE_VERIFICATION

ENGINE_IMAGE = Path(__file__).resolve().parents[3] / "engine_image"
WHOLE = launch.PACKAGES


@pytest.fixture
def termination_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(path))
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that replaced the process."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _path, command: commands.append(command))
    return commands


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture(autouse=True)
def a_complete_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run without vLLM."""
    monkeypatch.setattr(launch, "PACKAGES", ("json",))


def a_model(folder: Path) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return str(folder)


def drafter_flag(path: str) -> str:
    return json.dumps({"method": "draft_model", "model": path})


def test_vllm_gets_every_argument(started: list[list[str]], tmp_path: Path) -> None:
    arguments = ["--model", a_model(tmp_path / "target"), "--port", "8000", "--enforce-eager"]
    main(arguments)
    assert started == [[sys.executable, "-m", API_SERVER, *arguments]]


def test_a_worker_serves_without_a_server(started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[list[str]] = []
    monkeypatch.setattr(launch, "serve_headless", served.append)
    arguments = ["--model=Qwen/Qwen3-8B", "--nnodes=2", "--node-rank=1", HEADLESS]
    main(arguments)
    assert (served, started) == ([arguments], [])


def test_a_name_of_a_hub_is_not_looked_for(started: list[list[str]]) -> None:
    main(["--model=Qwen/Qwen3-8B", "--speculative-config", drafter_flag("RedHatAI/Qwen3-8B-speculator")])
    assert started


@pytest.mark.parametrize("form", [["--model", "{}"], ["--model={}"]])
def test_a_missing_model_is_told(termination_log: Path, tmp_path: Path, form: list[str]) -> None:
    missing = str(tmp_path / "nowhere")
    with pytest.raises(SystemExit) as ended:
        main([part.format(missing) for part in form])
    assert ended.value.code == EXIT_CONFIG == 78
    cause = json.loads(termination_log.read_text())
    assert cause["reason"] == "ModelNotFound"
    assert f"the model {missing}" in cause["message"]


@pytest.mark.parametrize("flag", ["--speculative-config", "--speculative_config"])
def test_a_missing_drafter_is_told(termination_log: Path, tmp_path: Path, flag: str) -> None:
    missing = str(tmp_path / "nowhere")
    with pytest.raises(SystemExit):
        main(["--model", a_model(tmp_path / "target"), flag, drafter_flag(missing)])
    assert f"the drafter {missing}" in json.loads(termination_log.read_text())["message"]


def test_an_empty_folder_holds_no_model(termination_log: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["--model", str(tmp_path)])
    assert json.loads(termination_log.read_text())["reason"] == "ModelNotFound"


def test_a_speculative_config_that_is_no_json_is_left_to_vllm(started: list[list[str]]) -> None:
    main(["--speculative-config", "{"])
    assert started


def test_a_termination_log_that_is_not_there_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "termination-log"
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(log))
    with pytest.raises(SystemExit):
        main(["--model", str(tmp_path / "nowhere")])
    assert not log.exists()
    assert json.loads(capsys.readouterr().err)["reason"] == "ModelNotFound"


def test_the_folder_that_flashinfer_links_to_is_there_before_vllm_starts(
    started: list[list[str]], home: Path
) -> None:
    main(["--model=Qwen/Qwen3-8B"])
    assert len(started) == 1
    dockerfile = Path(__file__).resolve().parents[3] / "engine_image" / "Dockerfile"
    assert (home / CUBINS).is_dir()
    assert f"ln -s /home/outrider/{CUBINS} " in dockerfile.read_text(encoding="utf-8")


def test_a_home_that_cannot_be_written_keeps_no_engine_from_starting(
    started: list[list[str]], home: Path
) -> None:
    home.write_text("a file")
    main(["--model=Qwen/Qwen3-8B"])
    assert started


ADAPTIVE = ["--speculative-config", json.dumps({"method": "eagle3", ADAPTIVE_VERIFICATION: True})]
Answers = Callable[[str], None]


@pytest.fixture
def vllm_answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Let the process that asks vLLM print a line of Python's making in its place."""

    def answer(code: str) -> None:
        whole = subprocess.run

        def run(command: list[str], **options: object) -> object:
            assert command[1:3] == ["-m", launch.ATTENTION]
            return whole([sys.executable, "-c", code], **options)  # type: ignore[call-overload]

        monkeypatch.setattr(subprocess, "run", run)

    return answer


def test_an_engine_that_cannot_verify_adaptively_ends_before_vllm_starts(
    started: list[list[str]], termination_log: Path, vllm_answers: Answers
) -> None:
    vllm_answers("""print('{"obstacle": "FLASH_ATTN has no such graphs"}')""")
    with pytest.raises(SystemExit) as ended:
        main(ADAPTIVE)
    cause = json.loads(termination_log.read_text())
    assert (ended.value.code, started) == (EXIT_CONFIG, [])
    assert cause["reason"] == "AdaptiveVerificationUnavailable"
    assert cause["message"].startswith("FLASH_ATTN has no such graphs. To launch it, set ")
    assert "spec.speculation.verification: Fixed" in cause["message"]


@pytest.mark.parametrize(
    "code",
    [
        """print('{"obstacle": null}')""",
        "raise SystemExit(1)",
        "print('no JSON')",
        "pass",
        "print('[]')",
    ],
)
def test_an_engine_starts_where_vllm_can_or_does_not_say(
    started: list[list[str]], vllm_answers: Answers, code: str
) -> None:
    vllm_answers(code)
    main(ADAPTIVE)
    assert started == [[sys.executable, "-m", API_SERVER, *ADAPTIVE]]


@pytest.mark.parametrize("config", [{}, {ADAPTIVE_VERIFICATION: False}])
def test_vllm_is_asked_only_by_launches_that_verify_adaptively(
    started: list[list[str]], vllm_answers: Answers, config: dict[str, bool]
) -> None:
    vllm_answers("raise AssertionError")
    main(["--speculative-config", json.dumps({"method": "eagle3", **config})])
    assert started


@pytest.mark.parametrize("form", [("--speculative-config", "{}"), ("--speculative_config={}",)])
def test_the_same_launch_without_adaptive_verification_keeps_all_other_flags(form: tuple[str, ...]) -> None:
    given = json.dumps({"method": "mtp", ADAPTIVE_VERIFICATION: True})
    flags = ["--model=x", *(part.replace("{}", given) for part in form), "--port=1"]
    *others, last = without_adaptive(flags)
    assert others == ["--model=x", "--port=1"]
    assert speculative_config([last]) == {"method": "mtp", ADAPTIVE_VERIFICATION: False}


def ended(started: list[list[str]], termination_log: Path) -> dict[str, str]:
    """The cause that a launch leaves which becomes no server."""
    with pytest.raises(SystemExit) as exit_:
        main(["--model=Qwen/Qwen3-8B"])
    assert (exit_.value.code, started) == (EXIT_CONFIG, [])
    cause: dict[str, str] = json.loads(termination_log.read_text())
    return cause


def test_a_package_that_the_image_lacks_is_named_with_a_remedy(
    started: list[list[str]], termination_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "PACKAGES", ("json", "no_such_package", "nor_this_one"))
    cause = ended(started, termination_log)
    assert cause["reason"] == "EngineImageIncomplete"
    assert "no package no_such_package and no package nor_this_one" in cause["message"]
    assert "Set spec.engine.image to an image that has it" in cause["message"]


def test_a_python_that_is_too_old_for_the_plugin_is_named(
    started: list[list[str]], termination_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "OLDEST_PYTHON", (99, 0))
    cause = ended(started, termination_log)
    assert cause["reason"] == "EngineImageIncomplete"
    assert "older than 99.0" in cause["message"]


def test_the_packages_are_those_that_the_plugin_needs_and_leaves_to_the_image() -> None:
    described = tomllib.loads((ENGINE_IMAGE / "pyproject.toml").read_text())["project"]
    needed = {re.split("[>=]", text)[0] for text in described["dependencies"]}
    lock = library_commands("uv", Target.PLUGIN, Path())[0]
    left_out = {lock[index + 1] for index, word in enumerate(lock) if word == "--prune"}
    assert set(WHOLE) == {"vllm", *(needed & left_out)}
    assert described["requires-python"] == f">={'.'.join(map(str, launch.OLDEST_PYTHON))}"
