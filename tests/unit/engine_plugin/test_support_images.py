"""All images are built from one place, with a plugin that is pinned by its hash."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from engine_image.build import DOCKERFILES, PACKAGES, Plugin, Target


def dockerfile(target: Target) -> str:
    return DOCKERFILES[target].read_text()


@pytest.mark.parametrize(
    ("package", "name"),
    [("outrider_engine", "PLUGIN"), ("outrider_protocol", "PROTOCOL"), ("outrider_twin", "PLUGIN")],
)
def test_a_package_is_pinned_by_what_its_wheel_holds(tmp_path: Path, package: str, name: str) -> None:
    wheel = tmp_path / f"{package}-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"content")
    sha256 = hashlib.sha256(b"content").hexdigest()
    assert Plugin(wheel).arguments() == {f"{name}_VERSION": "1.2.3", f"{name}_SHA256": sha256}


@pytest.mark.parametrize("target", Target)
def test_every_hash_is_verified_before_its_wheel_is_used(target: Target) -> None:
    text = dockerfile(target)
    verified = text.index("sha256sum --check --strict")
    for package in PACKAGES[target]:
        name = "protocol" if package == "outrider-protocol" else "plugin"
        assert text.index(f"COPY {package.replace('-', '_')}-") < verified
        assert verified < text.index(f"zipfile -e /tmp/{name}.whl")
        assert f"${{{name.upper()}_SHA256}}" in text
        assert f"ARG {name.upper()}_SHA256\n" in text, "a default would make an unpinned build possible"


@pytest.mark.parametrize("target", Target)
def test_the_last_user_is_an_ordinary_one(target: Target) -> None:
    assert re.findall(r"^USER (\S+)$", dockerfile(target), re.MULTILINE)[-1] == "1000:1000"
