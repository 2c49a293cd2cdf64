"""The version contract: what it finds in made-up sources, and that no name of vLLM is used without it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine_image.testing.contract import reference
from engine_image.testing.contract.expectations import EXPECTATIONS
from engine_image.testing.contract.forms import (
    Defines,
    Expectation,
    Form,
    Holds,
    Ignores,
    Imports,
    Inherits,
    Names,
    Says,
    Verdict,
)
from engine_image.testing.contract.matrix import differences
from engine_image.testing.contract.result import Result
from engine_image.testing.contract.source import Source
from engine_image.testing.contract.wheels import SUPPORTED
from outrider_protocol.releases import OLDEST_VERSION, VERSIONS, parse_version
from tests.unit.engine_plugin.names_used import Engine, unexpected, uses

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "engine_image" / "outrider_engine"
PAGE = ROOT / "docs" / "reference" / reference.FILE_NAME

CORE = """
from vllm.base import Base
GROUP = "vllm.things"
if True:
    class Core(Base):
        field: int = 0
        def __init__(self):
            self.scheduler = None
        def schedule(self, table, *args):
            return table[len(args)]
class Child(Core):
    def schedule(self, *args):
        return super().schedule(*args)
class Rebel(Core):
    def schedule(self, *args):
        return None
"""


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "core.py").write_text(CORE)
    (tmp_path / "vllm" / "base.py").write_text("class Base:\n    def inherited(self): ...\n")
    return Source(tmp_path)


PATH = "vllm/core.py"
FORMS: tuple[tuple[Form, Verdict], ...] = (
    (Defines(PATH, "Core"), Verdict.OK),
    (Defines(PATH, "Core.schedule", takes=("self", "table")), Verdict.OK),
    (Defines(PATH, "Core.schedule", takes=("self", "lookup")), Verdict.CHANGED),
    (Defines(PATH, "Core.run"), Verdict.MISSING),
    (Defines("vllm/gone.py", "Core"), Verdict.MISSING),
    (Holds(PATH, "Core", ("field", "scheduler", "schedule")), Verdict.OK),
    (Holds(PATH, "Child", ("scheduler", "inherited")), Verdict.OK),
    (Holds(PATH, "Core", ("scheduler", "lookup")), Verdict.MISSING),
    (Says(PATH, "Core.schedule", "table[len(args)]"), Verdict.OK),
    (Says(PATH, "Core.schedule", "table[0]"), Verdict.CHANGED),
    (Ignores(PATH, "lookup"), Verdict.OK),
    (Ignores(PATH, "scheduler"), Verdict.CHANGED),
    (Ignores("vllm/gone.py", "lookup"), Verdict.MISSING),
    (Inherits(PATH, "Child", "Core", ("schedule",)), Verdict.OK),
    (Inherits(PATH, "Rebel", "Core", ("schedule",)), Verdict.CHANGED),
    (Inherits(PATH, "Core", "Other", ()), Verdict.CHANGED),
    (Names(PATH, ("vllm.things",)), Verdict.OK),
    (Names(PATH, ("vllm.others",)), Verdict.MISSING),
    (Imports(PATH, "Base"), Verdict.OK),
    (Imports(PATH, "Basis"), Verdict.MISSING),
)


@pytest.mark.parametrize(("form", "verdict"), FORMS, ids=lambda value: str(getattr(value, "text", str)()))
def test_each_form_finds_what_is_there(source: Source, form: Form, verdict: Verdict) -> None:
    assert form.verify(source).verdict is verdict


def test_a_vllm_of_another_shape_differs_from_the_table_of_methods(source: Source) -> None:
    assert "draft_model on V1: the table says follows, the source absent" in differences(source, (0, 32))


def test_an_expectation_is_about_the_releases_that_it_names() -> None:
    form, asked = Defines(PATH, "Core"), [(0, 28), (0, 29), (0, 30)]
    whole, newer, older = (
        Expectation(form, "x.py", since, until)
        for since, until in [(None, None), ((0, 29), None), (None, (0, 30))]
    )
    assert [whole.needed_in(version) for version in asked] == [True, True, True]
    assert [newer.needed_in(version) for version in asked] == [False, True, True]
    assert [older.needed_in(version) for version in asked] == [True, True, False]


def test_no_expectation_stands_twice() -> None:
    texts = [expectation.form.text() for expectation in EXPECTATIONS]
    assert sorted(set(texts)) == sorted(texts)


def test_every_module_that_is_named_exists() -> None:
    used_by = {expectation.used_by for expectation in EXPECTATIONS}
    assert [name for name in used_by if name.endswith(".py") and not (PLUGIN / name).exists()] == []


# The kept result.


def test_the_page_is_up_to_date() -> None:
    hint = "stale: run `python -m engine_image.testing.contract.reference --write docs/reference/`"
    assert PAGE.read_text() == reference.render(), hint


def test_the_kept_result_is_about_these_expectations_and_versions() -> None:
    kept, texts = Result.read(), [expectation.form.text() for expectation in EXPECTATIONS]
    assert list(kept.versions) == [str(distribution) for distribution in SUPPORTED]
    assert [name for name, outcome in kept.versions.items() if list(outcome.expectations) != texts] == [], (
        "the expectations have changed: run `make contract`"
    )


def test_every_version_that_the_planner_takes_keeps_the_contract() -> None:
    taken = {
        name: outcome.broken
        for name, outcome in Result.read().versions.items()
        if parse_version(name.split()[1]) >= OLDEST_VERSION
    }
    assert {name: broken for name, broken in taken.items() if broken} == {}


def test_every_version_that_the_planner_takes_was_checked() -> None:
    checked = {parse_version(name.split()[1]) for name in Result.read().versions}
    assert set(VERSIONS) <= checked


# What the plugin uses of vLLM.

VLLM = Engine(
    "vllm",
    frozenset({"_engine_client", "_vllm_scheduler", "_vllm_output", "_vllm_proposer"}),
    EXPECTATIONS,
)
ADAPTER = sorted(PLUGIN.glob("vllm_adapter/*.py"))
APART = {"http/server.py"}
"""It knows objects of uvicorn."""


@pytest.mark.parametrize("module", ADAPTER, ids=lambda path: path.name)
def test_the_contract_covers_every_name_of_vllm_that_the_plugin_uses(module: Path) -> None:
    assert unexpected(ast.parse(module.read_text()), VLLM) == []


def test_no_other_room_imports_vllm_or_knows_its_objects() -> None:
    others = set(PLUGIN.rglob("*.py")).difference(ADAPTER)
    knowing = {path for path in others if any(uses(ast.parse(path.read_text()), VLLM))}
    assert {str(path.relative_to(PLUGIN)) for path in knowing} == APART


@pytest.mark.parametrize(
    "code",
    [
        "from vllm.v1.engine.core import NoSuchCore",
        "def f(scheduler: Any):\n    return scheduler.no_such_field",
        "def f(scheduler: Any):\n    config = scheduler.vllm_config\n    return config.no_such_field",
        "def f(output: Any):\n    return [r.no_such_field for r in output.scheduled_new_reqs]",
        "def f(output: Any):\n    new, old = output.scheduled_new_reqs, 1\n    return new[0].no_such_field",
        "def f(self):\n    return self._engine_client.engine_core.no_such_call()",
        "def f(self):\n    return getattr(self._engine_client.engine_core, 'no_such_call', None)",
        "def f(runner: Any):\n    wrap(runner, 'no_such_call', hook)",
    ],
)
def test_a_name_without_an_expectation_is_found(code: str) -> None:
    assert [line.partition(": ")[2] for line in unexpected(ast.parse(code), VLLM)] in (
        ["NoSuchCore"],
        ["no_such_field"],
        ["no_such_call"],
    )
