"""A release of vLLM is named in ``versions.toml``, and everything else follows it."""

from __future__ import annotations

import re
import subprocess

import pytest

from engine_image.releases import CPU, DEFAULT, PLACES, ROOT, SUPPORTED, updated
from outrider.api.engine import Engine
from outrider_protocol.releases import NEWEST_VERSION, parse_version

FACTS = {
    "docs/README.md": "the driver that this release needs",
    "operator/outrider/cli/doctor/launch_checks.py": "the driver that this release needs",
    "docs/reference/admission-rules.md": "an example of how a version is written",
    "operator/outrider/api/quantity.py": "an example of how a version is written",
}
"""Files that name the default release, and do not follow it."""
GENERATED = ("charts/outrider/README.md", "charts/outrider/files/", "crds/", "docs/reference/")
RECORDS = (
    "CHANGELOG.md",
    "docs/benchmarks/",
    "docs/decisions/",
    "engine_image/testing/",
    "examples/tables/",
    "tests/",
)


def test_the_default_release_is_the_newest_that_was_checked() -> None:
    assert DEFAULT == SUPPORTED[-1] == Engine().version
    assert parse_version(DEFAULT) == NEWEST_VERSION
    assert CPU in SUPPORTED


@pytest.mark.parametrize("path", PLACES)
def test_a_file_has_the_releases_of_the_list(path: str) -> None:
    assert (ROOT / path).read_text() == updated(path), "stale: run `make generate`"


def test_no_other_file_names_the_default_release() -> None:
    """Else a new release would have to be written there by hand."""
    found = subprocess.run(
        ["git", "grep", "-lE", rf"(^|[^0-9.]){re.escape(DEFAULT)}($|[^0-9])", "--", ".", ":!uv.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    named = {path for path in found if not path.startswith((*GENERATED, *RECORDS))}

    assert named - FACTS.keys() - PLACES.keys() == {"engine_image/protocol/outrider_protocol/versions.toml"}
