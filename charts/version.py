"""The version in every place that has it. ``python -m charts.version`` prints it.

``--tag v0.2.0`` exits with 1 if that is not the version, or if the changelog has no such section. The module
uses the standard library only, because the release workflow runs it before it installs packages.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_TOML = r'^version = "(.+)"$'
_MODULE = r'^__version__ = "(.+)"$'

PLACES: Mapping[str, tuple[str, ...]] = {
    "pyproject.toml": (_TOML,),
    "operator/pyproject.toml": (_TOML,),
    "operator/lab/pyproject.toml": (_TOML,),
    "operator/outrider/__init__.py": (_MODULE,),
    "engine_image/pyproject.toml": (_TOML,),
    "engine_image/testing/interpreted/pyproject.toml": (_TOML,),
    "engine_image/testing/sglang_cpu/pyproject.toml": (_TOML,),
    "engine_image/outrider_engine/__init__.py": (_MODULE,),
    "engine_image/protocol/pyproject.toml": (_TOML,),
    "engine_image/protocol/outrider_protocol/__init__.py": (_MODULE,),
    "engine_image/testing/twin/pyproject.toml": (_TOML,),
    "engine_image/testing/twin/outrider_twin/__init__.py": (_MODULE,),
    "charts/outrider/Chart.yaml": (r"^version: (.+)$", r'^appVersion: "(.+)"$'),
    "uv.lock": tuple(
        rf'^name = "{name}"\nversion = "(.+)"$'
        for name in (
            "outrider",
            "outrider-engine",
            "outrider-lab",
            "outrider-protocol",
            "outrider-twin",
            "outrider-workspace",
        )
    ),
    "docs/reference/speculativemodel.md": (r"^Of version (.+)\.$",),
    "charts/outrider/README.md": (r"Version ([^,]+),",),
}
"""The places of the version: each file with patterns that have a group around the version."""


def carried(root: Path = ROOT) -> dict[str, str]:
    """The version in each place, by file and number.

    Raises:
        ValueError: a place has no version.
    """
    found: dict[str, str] = {}
    for path, patterns in PLACES.items():
        text = (root / path).read_text(encoding="utf-8")
        for number, pattern in enumerate(patterns, start=1):
            match = re.search(pattern, text, re.MULTILINE)
            if match is None:
                raise ValueError(f"{path} carries no version like {pattern}")
            found[f"{path} ({number})"] = match[1]
    return found


def version(root: Path = ROOT) -> str:
    """The version.

    Raises:
        ValueError: it differs between two places.
    """
    said = carried(root)
    if len(set(said.values())) != 1:
        raise ValueError(f"the version differs between files: {said}")
    return next(iter(said.values()))


def notes(changelog: str, of_version: str) -> str:
    """The section of the changelog for one version.

    Raises:
        ValueError: the changelog has none.
    """
    heading = rf"^## {re.escape(of_version)}(?: .*)?\n"
    match = re.search(heading + r"(?P<text>(?:(?!^## ).*\n?)*)", changelog, re.MULTILINE)
    if match is None or not match["text"].strip():
        raise ValueError(f"CHANGELOG.md has no section about {of_version}")
    return match["text"].strip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m charts.version", description=__doc__)
    parser.add_argument("--tag", help="tag of the release, such as v0.2.0")
    parser.add_argument(
        "--notes", action="store_true", help="print the section of the changelog in place of the version"
    )
    options = parser.parse_args(arguments)
    try:
        present = version()
        changes = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), present) if options.tag else ""
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.tag not in (None, f"v{present}"):
        sys.stderr.write(f"the tag is {options.tag}, and the version {present}\n")
        return 1
    sys.stdout.write(changes if options.notes else f"{present}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
