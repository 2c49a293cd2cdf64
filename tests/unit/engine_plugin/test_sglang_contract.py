"""The contract with SGLang: every supported release keeps it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine_image.testing.contract.forms import Defines, Says, Verdict
from engine_image.testing.contract.result import SGLANG_RESULT_FILE, Result
from engine_image.testing.contract.sglang_expectations import SGLANG_EXPECTATIONS
from engine_image.testing.contract.source import Source
from engine_image.testing.contract.wheels import SUPPORTED_SGLANG
from tests.unit.engine_plugin.names_used import Engine, unexpected, uses

PLUGIN = Path(__file__).parents[3] / "engine_image" / "outrider_sglang"
ADAPTER = sorted(PLUGIN.glob("sglang_adapter/*.py"))
SGLANG = Engine("sglang", frozenset({"_sglang_scheduler", "_tokenizer_manager"}), SGLANG_EXPECTATIONS)

ENGINE_IMAGE = Path(__file__).parents[3] / "engine_image"


@pytest.fixture
def kept() -> Result:
    return Result.read(SGLANG_RESULT_FILE)


def test_no_expectation_stands_twice() -> None:
    texts = [expectation.form.text() for expectation in SGLANG_EXPECTATIONS]
    assert sorted(set(texts)) == sorted(texts)


def test_every_module_that_is_named_exists() -> None:
    used_by = {expectation.used_by for expectation in SGLANG_EXPECTATIONS}
    assert [name for name in used_by if name.endswith(".py") and not (ENGINE_IMAGE / name).exists()] == []


def test_the_kept_result_is_about_these_expectations_and_releases(kept: Result) -> None:
    texts = [expectation.form.text() for expectation in SGLANG_EXPECTATIONS]
    assert list(kept.versions) == [str(distribution) for distribution in SUPPORTED_SGLANG]
    assert [name for name, outcome in kept.versions.items() if list(outcome.expectations) != texts] == [], (
        "the expectations have changed: run `make contract`"
    )


def test_every_supported_release_keeps_the_contract(kept: Result) -> None:
    assert {name: outcome.broken for name, outcome in kept.versions.items() if outcome.broken} == {}


def test_names_of_another_package_are_followed_through_its_imports(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "base.py").write_text("class Base:\n    def steps(self, size): return size\n")
    (tmp_path / "sglang" / "core.py").write_text("from sglang.base import Base\nclass Core(Base): ...\n")
    source = Source(tmp_path, "sglang")
    assert [path for path, _ in source.bases("sglang/core.py", "Core")] == [
        "sglang/core.py",
        "sglang/base.py",
    ]
    assert (
        Defines("sglang/base.py", "Base.steps", takes=("self", "size")).verify(source).verdict is Verdict.OK
    )
    assert Says("sglang/base.py", "Base.steps", "return 0").verify(source).verdict is Verdict.CHANGED


@pytest.mark.parametrize("module", ADAPTER, ids=lambda path: path.name)
def test_the_contract_covers_every_name_of_sglang_that_the_plugin_uses(module: Path) -> None:
    assert unexpected(ast.parse(module.read_text()), SGLANG) == []


def test_no_other_room_imports_sglang_or_knows_its_objects() -> None:
    others = set(PLUGIN.rglob("*.py")).difference(ADAPTER)
    assert [path for path in others if any(uses(ast.parse(path.read_text()), SGLANG))] == []
