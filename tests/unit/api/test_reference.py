"""The generated pages of the resource are up to date, and hold what a user looks up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from outrider.api.reference import EXAMPLE, PAGES, render_rules
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec

FOLDER = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("file_name", PAGES)
def test_a_page_is_up_to_date(file_name: str) -> None:
    assert (FOLDER / file_name).read_text() == PAGES[file_name](), (
        "stale: run `python -m outrider.api.reference --write docs/reference/`"
    )


def test_lists_the_admission_rules() -> None:
    assert "## spec.cache\n\n- spec.cache keeps what is downloaded" in render_rules()


def test_the_complete_manifest_has_every_field_of_the_spec() -> None:
    manifest = yaml.safe_load(EXAMPLE.read_text())
    names = {field.alias or name for name, field in Spec.model_fields.items()}
    assert isinstance(manifest["spec"], Mapping)
    assert manifest["spec"].keys() == names - {"target"}  # either a model or a target


def test_the_manifest_of_a_target_needs_no_other_field() -> None:
    manifest = yaml.safe_load((EXAMPLE.parent / "running-pods" / "target.yaml").read_text())
    assert SpeculativeModel.model_validate(manifest).spec.target is not None
    assert manifest["spec"].keys() == {"target"}
