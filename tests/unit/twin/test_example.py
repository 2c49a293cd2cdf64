"""The example and the image say what the stand-in understands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from engine_image.build import DOCKERFILES, Target
from outrider_twin.refusal import MARK
from outrider_twin.settings import VARIABLE, parse_settings

EXAMPLE = Path(__file__).parents[3] / "examples" / "twin-h100.yaml"


def example() -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())["spec"]
    return spec


def test_the_example_s_settings_are_understood() -> None:
    (container,) = example()["podTemplate"]["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    assert parse_settings(given[VARIABLE]).engine == parse_settings("h100_8b").engine


def test_the_example_serves_under_a_name_that_the_stand_in_takes() -> None:
    assert MARK in example()["model"]["servedName"]


def test_the_image_is_a_stand_in_without_further_settings() -> None:
    text = DOCKERFILES[Target.TWIN].read_text()
    (given,) = re.findall(rf"^ENV {VARIABLE}=(\S+)$", text, re.MULTILINE)
    assert parse_settings(given).faults.start_seconds == 0
