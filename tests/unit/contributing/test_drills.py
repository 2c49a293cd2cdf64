"""How many files a change takes: counted by the files that name something of that kind in their code.

Docstrings, comments and pages do not count, and neither do files that `make` writes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PRODUCT = (
    "operator/outrider",
    "engine_image/outrider_engine",
    "engine_image/protocol/outrider_protocol",
    "charts/outrider",
)
GENERATED = (
    "operator/outrider/runtimes/vllm/known_flags.py",
    "operator/outrider/runtimes/sglang/known_flags.py",
    "charts/outrider/README.md",
    "charts/outrider/files",
    "charts/outrider/dashboards",
)
SUFFIXES = (".py", ".toml", ".yaml", ".json")
RUNTIME_FOLDER = "operator/outrider/runtimes/vllm/"
ADMISSION = "operator/outrider/api/engines/__init__.py"
"""It has the value of each runtime. A module of the runtime's name beside it has what admission knows."""
PLUGIN_METRICS = "operator/outrider/runtimes/metrics.py"
"""Names of Outrider's plugins, which are alike in every engine."""


def words(path: Path) -> Iterator[str]:
    """Names and whole strings of a module; the words of another file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from re.findall(r"[\w.]+", text)
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.ClassDef(name=word):
                yield word
            case ast.FunctionDef(name=word) | ast.Constant(value=str(word)):
                yield word
            case ast.ImportFrom(module=str(word)):
                yield word
            case ast.Tuple(elts=[ast.Constant(value=int(first)), ast.Constant(value=int(second))]):
                yield f"({first}, {second})"


@cache
def product() -> dict[str, frozenset[str]]:
    """The words of each file of the product that a person writes."""
    paths = (path for root in PRODUCT for path in (ROOT / root).rglob("*") if path.suffix in SUFFIXES)
    names = {str(path.relative_to(ROOT)): path for path in paths}
    return {name: frozenset(words(p)) for name, p in names.items() if not name.startswith(GENERATED)}


def naming(*meant: str, also: tuple[str, ...] = ()) -> set[str]:
    """The files with one of these words. also: further files outside of the product."""
    known = product() | {name: frozenset(words(ROOT / name)) for name in also}
    return {name for name, found in known.items() if found.intersection(meant)}


def test_a_runtime_is_its_folder_and_a_value_of_the_api() -> None:
    imported = {word for found in product().values() for word in found if ".runtimes.vllm" in word}
    outside = {name for name in naming("VLLM", *imported) if not name.startswith(RUNTIME_FOLDER)}
    # `outrider import` reads launches of vLLM, which another runtime need not have.
    assert {name for name in outside if "/importing/" not in name} == {ADMISSION}


def test_a_metric_has_its_name_in_the_folder_of_its_runtime() -> None:
    found = {
        name
        for name, words in product().items()
        if name.startswith("operator/") and any(word.startswith(("vllm:", "outrider:")) for word in words)
    }
    # Guardrails name two gauges in their sentences.
    window = "operator/outrider/tuning/observe/window.py"
    assert found == {f"{RUNTIME_FOLDER}metrics.py", PLUGIN_METRICS, window}


def test_a_release_of_vllm_takes_at_most_four_files() -> None:
    found = naming("0.33", "0.33.0", "(0, 33)")
    assert "engine_image/protocol/outrider_protocol/versions.toml" in found
    assert len(found) <= 4, found


@pytest.mark.parametrize("method", ["medusa", "ngram_gpu", "mlp_speculator"])
def test_a_method_takes_three_files(method: str) -> None:
    assert naming(method, method.upper()) == {
        "engine_image/protocol/outrider_protocol/methods.py",
        "engine_image/protocol/outrider_protocol/versions.toml",
        "operator/outrider/runtimes/vllm/methods.py",
    }


def test_a_metrics_source_takes_five_files() -> None:
    assert naming("PodScrapeSource", "POD_SCRAPE", "PodScrape") == {
        "charts/outrider/values.schema.json",
        "charts/outrider/values.yaml",
        "operator/outrider/controller/settings.py",
        "operator/outrider/controller/tune/metrics_source.py",
        "operator/outrider/telemetry/pod_scrape.py",
    }


def test_a_guardrail_takes_at_most_four_files() -> None:
    tests = ("tests/unit/tuning/guarded.py", "tests/unit/tuning/test_guardrails.py")
    found = naming("kv_pressure", "KV_PRESSURE", also=tests)
    assert "operator/outrider/tuning/choose/guardrails.py" in found
    assert len(found) <= 4, found


@pytest.mark.parametrize("field", ["relaunch_interval", "structural_off", "sweep"])
def test_a_field_that_the_tuner_obeys_takes_at_most_twelve_files(field: str) -> None:
    assert len(naming(field)) <= 12, naming(field)
