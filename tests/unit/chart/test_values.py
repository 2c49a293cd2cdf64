"""A value that is misspelt is refused, every value is documented, and the chart lints."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.readme import FILE_NAME, Value, render, values
from outrider import __version__
from tests.unit.chart.kit import CHART, HELM, helm, needs_helm

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")
OF_THE_USER = {
    # Whose keys are the user's own, or those of Kubernetes.
    ".global",
    ".affinity.nodeAffinity",
    ".affinity.podAffinity",
    ".affinity.podAntiAffinity",
}
EVERYTHING = (
    "replicas=2",
    "podMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "prometheusRule.docsUrl=https://git.example/docs",
    "dashboard.enabled=true",
    "admissionPolicy.enabled=true",
    "operatorNetworkPolicy.enabled=true",
    "admissionPolicy.restrictPodTemplate=true",
    "watchNamespaces={a,b}",
    "prometheus.tokenSecret.name=token",
    "tolerations[0].key=cpu",
    "tolerations[0].operator=Exists",
)


def objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema, by its path."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        yield from objects(schema["items"], f"{path}[]")
    if schema.get("type") == "object":
        yield path, schema
        for name, child in schema.get("properties", {}).items():
            yield from objects(child, f"{path}.{name}")


def lint(*settings: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    arguments = [part for value in settings for part in ("--set", value)]
    command = [HELM, "lint", "--strict", str(CHART), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("path", "schema"), list(objects(SCHEMA)), ids=[path or "." for path, _ in objects(SCHEMA)]
)
def test_an_object_takes_the_keys_that_it_knows_or_values_of_one_type(
    path: str, schema: dict[str, Any]
) -> None:
    others = schema.get("additionalProperties", True)

    assert others is not True or path in OF_THE_USER


@needs_helm
@pytest.mark.parametrize(
    "typo",
    [
        "replica=2",
        "prometheusRule.enable=true",
        "dashboard.label.x=y",
        "podMonitor.intervall=5s",
        "resources.limit.memory=1Gi",
        "tolerations[0].keys=cpu",
        "affinity.podAntiAfinity.x=y",
        "operatorNetworkPolicy.enable=true",
        "imagePullSecrets[0].nam=x",
        "prometheus.tokenSecret.nam=x",
    ],
)
def test_a_misspelt_value_is_refused_by_its_name(typo: str) -> None:
    result = helm(typo)

    misspelt = typo.partition("=")[0].removesuffix(".memory").removesuffix(".x").rpartition(".")[2]
    assert result.returncode != 0
    assert misspelt.removesuffix("[0]") in result.stderr


@needs_helm
@pytest.mark.parametrize("settings", [(), EVERYTHING], ids=["defaults", "everything"])
def test_the_chart_lints_strictly(settings: tuple[str, ...]) -> None:
    result = lint(*settings)

    assert result.returncode == 0, result.stdout + result.stderr


@needs_helm
def test_a_chart_that_does_not_lint_would_be_seen() -> None:
    assert lint("replica=2").returncode != 0


def test_the_readme_is_up_to_date() -> None:
    shipped = (CHART / FILE_NAME).read_text(encoding="utf-8")

    assert shipped == render(), "stale: run `python -m charts.readme --write charts/outrider/`"


@needs_helm
def test_the_command_of_the_readme_installs_the_chart() -> None:
    """As typed, from the checkout, with a registry; `template` in place of `install` asks no cluster."""
    (command,) = re.findall(r"```\n(helm install .*?)```", render(), re.DOTALL)
    words = shlex.split(command.replace("\\\n", " ").replace("$REGISTRY", "registry.example"))
    assert words[:2] == ["helm", "install"]
    assert HELM is not None
    printed = subprocess.run(
        [HELM, "template", *words[2:]], capture_output=True, text=True, check=False, cwd=CHART.parents[1]
    )

    assert printed.returncode == 0, printed.stderr
    assert f"registry.example/outrider-plugin:{__version__}" in printed.stdout


def leaves(given: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in given.items():
        yield (*path, name)
        if isinstance(value, dict) and (*path, name) in {each.path[:-1] for each in values(VALUES)}:
            yield from leaves(value, (*path, name))


def test_every_key_of_the_values_is_found() -> None:
    assert [each.path for each in values(VALUES)] == list(leaves(yaml.safe_load(VALUES)))


def commented(value: Value) -> bool:
    comments = {each.path: each.comment for each in values(VALUES)}
    return any(comments[value.path[:depth]] for depth in range(len(value.path), 0, -1))


@pytest.mark.parametrize("value", list(values(VALUES)), ids=lambda value: value.name)
def test_a_value_has_a_comment_or_stands_in_a_group_that_has_one(value: Value) -> None:
    group = any(other.path[:-1] == value.path for other in values(VALUES))

    assert group or commented(value)


def test_comments_belong_to_the_key_below_them() -> None:
    text = "# Of a.\na: 1\n\n# Lost.\n\nb:\n  # Of c,\n  # in two lines.\n  c: {d: 1}\n"

    assert list(values(text)) == [
        Value(("a",), "Of a."),
        Value(("b",), ""),
        Value(("b", "c"), "Of c, in two lines."),
    ]


def test_the_readme_is_in_the_chart_that_is_packed() -> None:
    ignored = (CHART / ".helmignore").read_text(encoding="utf-8").split()

    assert not {FILE_NAME, "*.md", "dashboards/", "files/"} & set(ignored)
    assert (Path(CHART) / FILE_NAME).exists()


def schema_of(path: tuple[str, ...]) -> dict[str, Any]:
    """The schema of a value, or of the object around all values."""
    found = SCHEMA
    for name in path:
        found = found["properties"][name]
        if "$ref" in found:
            found = SCHEMA["definitions"][found["$ref"].rpartition("/")[2]]
    return found


def needed(path: tuple[str, ...]) -> bool:
    """Helm refuses null for it."""
    return path[-1] in schema_of(path[:-1]).get("required", [])


def given(path: tuple[str, ...]) -> Any:
    """The default of a value."""
    found = yaml.safe_load(VALUES)
    for name in path:
        found = found[name]
    return found


def empty(path: tuple[str, ...]) -> Any:
    """The empty list, map or text that null stands for."""
    return type(given(path))()


PATHS = [value.path for value in values(VALUES)]
SET_BY_EVERY_TEST = {("image",), ("image", "repository")}
OPTIONAL = [path for path in PATHS if not needed(path)]
EVERY_OBJECT = (
    "admissionPolicy.enabled=true",
    "networkPolicy.enabled=true",
    "operatorNetworkPolicy.enabled=true",
    "podMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "dashboard.enabled=true",
)


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_null_is_refused_for_a_value_that_has_no_empty_form(path: tuple[str, ...]) -> None:
    has_empty_form = isinstance(given(path), (str, list, dict)) and not schema_of(path).get("required")

    assert needed(path) or has_empty_form


@needs_helm
def test_null_for_a_list_a_map_or_a_text_is_the_empty_one() -> None:
    inner = [path for path in OPTIONAL if path[:-1] not in OPTIONAL]
    nulls = tuple(part for path in inner for part in ("--set-json", f"{'.'.join(path)}=null"))
    text = helm(*EVERY_OBJECT, flags=nulls)
    assert text.returncode == 0, text.stderr
    # Helm merges maps, so an empty one leaves the defaults; null takes each key of theirs.
    empties = tuple(
        part
        for path in inner
        for name, value in (
            [((*path, key), None) for key in given(path)]
            if isinstance(given(path), dict) and given(path)
            else [(path, empty(path))]
        )
        for part in ("--set-json", f"{'.'.join(name)}={json.dumps(value)}")
    )

    assert list(yaml.safe_load_all(text.stdout)) == list(
        yaml.safe_load_all(helm(*EVERY_OBJECT, flags=empties).stdout)
    )


@needs_helm
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_null_for_another_value_is_refused_by_its_name(depth: int) -> None:
    refused = [
        path for path in PATHS if len(path) == depth and needed(path) and path not in SET_BY_EVERY_TEST
    ]
    nulls = tuple(part for path in refused for part in ("--set-json", f"{'.'.join(path)}=null"))
    result = helm(flags=nulls)

    assert refused
    assert result.returncode != 0
    assert all(f"'{path[-1]}'" in result.stderr for path in refused), result.stderr


@needs_helm
def test_no_null_reaches_the_expressions_of_the_admission_policy() -> None:
    text = helm("admissionPolicy.enabled=true", "admissionPolicy.podLabels=null").stdout

    assert "![].exists(known," in text
