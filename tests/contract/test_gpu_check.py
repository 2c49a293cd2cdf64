"""The check of a GPU, without one: its parts on real engines of made models, and their results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from outrider.performance.tables_file import read_tables
from outrider_protocol.methods import Method
from outrider_protocol.releases import CPU_RELEASE
from tests.contract.engine_process import QUIET, run
from tests.gpu.__main__ import main
from tests.gpu.launches import Arm, Models, launch
from tests.gpu.models import REAL, make
from tests.gpu.places import GPU
from tests.gpu.record import Status

pytestmark = pytest.mark.contract

SHORTEST = (
    *("--engine", "cpu"),
    *("--candidates", "0,2"),
    *("--table-streams", "1"),
    *("--tokens", "8"),
    *("--pairs", "4"),
    *("--minutes", "10"),
)
PARTS = "first-page,profile,rows"
"""One engine starts. `make gpu-check ARGS="--engine interpreted"` runs all of them."""


@pytest.mark.nightly("it loads an engine for a minute")
def test_its_parts_run_on_a_cpu_and_a_later_run_has_nothing_left(
    plugin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*SHORTEST, "--plugin", str(plugin), "--output", str(tmp_path), "--parts", PARTS]
    assert main(given) == 0
    first = result(tmp_path)
    assert statuses(first) == dict.fromkeys(PARTS.split(","), Status.DONE)
    assert set(first["starts"]) == {"eagle3, first page"}
    verdicts = {check["name"]: check["verdict"] for check in first["parts"]["eagle3, first-page"]["checks"]}
    # On a busy machine the seconds of a startup profile can end before its first cell.
    assert verdicts.pop("it measures its startup profile") in ("met", "not met")
    assert set(verdicts.values()) == {"met"}, verdicts
    assert (tmp_path / "page.html").exists()
    assert read_tables(tmp_path / "tables.json")["dry_run_eagle3"].candidates == (0, 2)
    assert main([*given, "--resume"]) == 0
    again = result(tmp_path)
    assert again["parts"] == first["parts"]
    assert again["starts"] == first["starts"]
    (tmp_path / "result.json").write_text(json.dumps({**first, "commit": "another"}))
    assert main([*given, "--resume"]) == 1
    assert "another commit" in capsys.readouterr().err


def test_parts_without_time_are_named_and_fail_the_check(plugin: Path, tmp_path: Path) -> None:
    given = [*SHORTEST, "--plugin", str(plugin), "--output", str(tmp_path), "--parts", "k0", "--minutes", "0"]
    assert main(given) == 1
    assert statuses(result(tmp_path)) == {"k0": Status.NO_TIME}


EVERY_LENGTH = [1, 2, 3, 4, 6]
"""Tokens per request of decode steps, one more than each candidate."""
RESOLVED = {
    Arm.FIRST_PAGE: ("V2", EVERY_LENGTH),
    Arm.NONE: ("V2", [1]),
    Arm.STATIC: ("V2", [6]),
    Arm.LIVE: ("V2", EVERY_LENGTH),
    Arm.FOLLOWING: ("V2", EVERY_LENGTH),
    Arm.LIVE_V1: ("V1", [6]),
    Arm.TWO: ("V2", [1, 6]),
    Arm.THREE: ("V2", [1, 4, 6]),
}
"""Runner, and lengths of decode steps with a full graph of their own."""


def test_vllm_takes_the_launches_of_the_real_size_on_an_imitated_gpu(tmp_path: Path) -> None:
    pair = make(Method.EAGLE3, tmp_path / "models", REAL)
    models = Models(pair, Method.EAGLE3, (0, 1, 2, 3, 5), CPU_RELEASE, memory_share=0.3)
    launches = [launch(arm, models, GPU) for arm in RESOLVED]
    resolved = resolve([{"flags": each.flags, "variables": each.variables} for each in launches], tmp_path)
    found = {arm: (one["runner"], one["decodeLengths"]) for arm, one in zip(RESOLVED, resolved, strict=True)}
    assert found == RESOLVED
    assert all(one["asynchronous"] for one in resolved)


def resolve(launches: list[dict[str, object]], folder: Path) -> Any:
    """What vLLM's configuration code makes of launches on an imitated H100."""
    classes, given, answer = (folder / name for name in ("classes.json", "given.json", "answer.json"))
    classes.write_text(json.dumps(["LlamaForCausalLM", "Eagle3LlamaForCausalLM"]))
    given.write_text(json.dumps({"launches": launches, "gpus": []}))
    variables = {**os.environ, **QUIET, "VLLM_CACHE_ROOT": str(folder)}
    for task in (["look", str(classes)], ["resolve", str(given), str(answer)]):
        done = run([str(Path(__file__).with_name("pretended_gpu.py")), *task], variables, timeout=300)
        assert done.returncode == 0, done.log[-4000:]
    return json.loads(answer.read_text())["launches"]


def result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text())


def statuses(found: Any) -> dict[str, str]:
    return {name.partition(", ")[2]: part["status"] for name, part in found["parts"].items()}
