"""A version is one thing: chart, packages, images and pages carry the same one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import outrider
from charts.version import PLACES, ROOT, carried, main, notes, version

CHANGELOG = (
    "# Changelog\n\n## Unreleased\n- later\n\n## 0.2.0 (2027-01-01)\n### Added\n- a\n\n## 0.1.0\n- b\n"
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The places, to be changed at will."""
    for path in PLACES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def test_every_place_carries_the_version_of_the_operator() -> None:
    assert set(carried().values()) == {outrider.__version__}


@pytest.mark.parametrize("path", PLACES)
def test_a_place_that_was_forgotten_is_named(copy: Path, path: str) -> None:
    text = (copy / path).read_text(encoding="utf-8")
    (copy / path).write_text(text.replace(outrider.__version__, "9.9.9"), encoding="utf-8")

    with pytest.raises(ValueError, match=re.escape(path)):
        version(copy)


def test_a_place_that_has_a_version_of_its_own_is_found() -> None:
    """No other project file or chart of the repository may have one."""
    kinds = ("pyproject.toml", "Chart.yaml")
    files = {path for kind in kinds for path in ROOT.rglob(kind) if not {".venv", "out"} & set(path.parts)}

    assert {str(path.relative_to(ROOT)) for path in files} <= set(PLACES)


@pytest.mark.parametrize(("of", "text"), [("0.2.0", "### Added\n- a\n"), ("0.1.0", "- b\n")])
def test_the_notes_of_a_release_are_its_section_of_the_changelog(of: str, text: str) -> None:
    assert notes(CHANGELOG, of) == text


def test_a_tag_of_another_version_is_refused() -> None:
    assert main(["--tag", "v9.9.9"]) == 1
