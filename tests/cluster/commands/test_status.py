"""``outrider status`` against models in the cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from outrider.cli.common.output import in_ranges
from tests.cluster.annotations import pause, take_back
from tests.cluster.commands import NAME, look
from tests.cluster.kubectl import has_condition, kubectl, wait_for
from tests.cluster.models import speculation
from tests.cluster.outrider_cli import outrider, program

pytestmark = [pytest.mark.engine("twin", "starts")]


def test_a_serving_model_needs_no_operator() -> None:
    table = speculation(look())["scheduleSummary"]
    ended = outrider("status", NAME, "-n", "default")
    assert (ended.code, ended.err) == (0, ""), ended.out
    assert f"default/{NAME}: Serving, 1/1 pods" in ended.out
    assert in_ranges(table) in ended.out


def test_json_says_the_same_as_the_api_server() -> None:
    (told,) = outrider("status", NAME, "-n", "default", "--json").told["models"]
    seen = look()
    assert seen is not None
    found = [each["status"]["speculation"]["scheduleSummary"] for each in (told, seen)]
    assert found[0] == found[1]


def test_a_pause_is_followed_while_the_command_runs() -> None:
    command = [program(), "status", NAME, "-n", "default", "-w", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            first = json.loads(following.stdout.readline())
            pause(NAME)
            told = next(line for line in following.stdout if '"Paused"' in line)
        finally:
            following.terminate()
            take_back(NAME)
    assert "Paused" not in json.dumps(first)
    (found,) = json.loads(told)["models"]
    assert [each["urgency"] for each in found["findings"] if each["reason"] == "Paused"] == ["Note"]
    wait_for(
        "tuning goes on",
        look,
        lambda seen: has_condition(seen, "TuningActive", "True"),
        seconds=60,
    )


def test_a_model_that_is_not_there_is_one_line() -> None:
    ended = outrider("status", "nobody", "-n", "default")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("outrider status: there is no SpeculativeModel default/nobody; ")


def test_kubectl_has_it_as_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(program()).parent), prepend=os.pathsep)
    assert f"default/{NAME}: Serving, 1/1 pods" in kubectl("speculative", "status", NAME, "-n", "default")
