"""What builds and releases takes from elsewhere is named by a version or a digest that cannot change."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine_image import build
from engine_image.build import Target
from tests.unit.release.kit import JOBS, WORKFLOWS, steps

ROOT = Path(__file__).resolve().parents[3]
DIGEST = r"@sha256:[0-9a-f]{64}"
OWN_IMAGES = "outrider/"
"""Built from here, so there is no digest of a registry."""
NO_DEFAULT = {
    "engine_image/Dockerfile": "engine_image.build passes vLLM's image by the digest of its tag",
    "engine_image/testing/sglang_cpu/Dockerfile": "engine_image.build asks for --base, an image of ours",
    "engine_image/testing/twin/Dockerfile": "engine_image.build asks for --base, an image of ours",
    "tests/environment/node/Dockerfile": "an image that tests/environment/images.py built before",
    "tests/environment/images/node-base/Dockerfile": "likewise",
    "tests/environment/images/python/Dockerfile": "likewise",
}
"""Dockerfiles that do not name their base, and what passes it."""


def dockerfiles() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if Path(name).name.startswith("Dockerfile")]


def unpinned_bases(text: str) -> list[str]:
    """Images after FROM that may be others tomorrow; of those that a build passes, the variable."""
    before, *_ = re.split(r"^FROM ", text, maxsplit=1, flags=re.MULTILINE)
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", before, re.MULTILINE))
    found, stages = [], {"scratch"}
    for reference, stage in re.findall(r"^FROM (?:--\S+ )*(\S+)(?: AS (\S+))?", text, re.MULTILINE):
        image = re.sub(r"\$\{?(\w+)\}?", lambda name: defaults.get(name[1], name[0]), reference)
        if not (image in stages or image.startswith(OWN_IMAGES) or re.search(f"{DIGEST}$", image)):
            found.append(image)
        stages.add(stage)
    return found


@pytest.mark.parametrize("path", dockerfiles(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_base_is_named_by_its_digest_or_passed_by_the_build(path: Path) -> None:
    passed = ["${BASE}"] if str(path.relative_to(ROOT)) in NO_DEFAULT else []
    assert unpinned_bases(path.read_text()) == passed


class Docker:
    """Commands in their order; images have these digests."""

    def __init__(self, *digests: str) -> None:
        self.ran: list[list[str]] = []
        self._digests = digests

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.ran.append(list(command))
        return subprocess.CompletedProcess(command, 0, stdout="\n".join(self._digests))


def built(monkeypatch: pytest.MonkeyPatch, docker: Docker, *arguments: str) -> list[str]:
    """The words of `docker build`."""
    monkeypatch.setattr(subprocess, "run", docker.run)
    assert build.main([*arguments, "--tag", "engine:x"]) == 0
    assert docker.ran[-1][:2] == ["docker", "build"]
    return docker.ran[-1]


def test_a_release_records_the_digest_of_vllms_image_and_ends_without_one() -> None:
    (script,) = (
        step["run"]
        for step in steps("release", "engine-images")
        if "engine_image.build" in step.get("run", "")
    )
    recorded, checked, pushed = (script.index(part) for part in ("base.name", "grep -Eq", "docker push"))
    assert recorded < checked < pushed
    assert "@sha256:[0-9a-f]{64}" in script[checked:pushed]
    assert "--base" not in script


def unpinned_tools(script: str, variables: Mapping[str, str] = {}) -> list[str]:
    """What a script fetches by a name that may be another thing tomorrow. variables: of its environment."""
    text = re.sub(r"\\\n\s*", " ", script)
    for name, value in variables.items():
        text = re.sub(rf"\$\{{?{name}\b\}}?", lambda _, value=value: value, text)  # type: ignore[misc]
    return [line.strip() for line in text.splitlines() if any(_unpinned(line))]


def _unpinned(line: str) -> Iterator[bool]:
    exact = r"==\d[\w.]*|@v?\d+\.\d+\.\d+"
    for _, requirement in re.findall(r"--with(-editable)?[ =]['\"]?(\S+)", line):
        yield not re.search(exact, requirement)
    for tool in re.findall(
        r"\b(?:uvx|uv tool (?:run|install)|pipx (?:run|install)|npx(?: -y)?)\s+(\S+)", line
    ):
        yield not re.search(exact, tool)
    for rest in re.findall(r"\bpip3? (?:install|download) (.*)", line):
        wanted = [word for word in rest.split() if not word.startswith("-")]
        locked = "--require-hashes" in rest or "--no-index" in rest
        yield not locked and not all(re.search(exact, word) for word in wanted)
    for _, tool in re.findall(r"\bgo (install|run) (?:-\S+ |\"[^\"]*\" )*(\S+\.\S+/\S+)", line):
        yield not re.search(r"@v\d+\.\d+\.\d+", tool)
    yield bool(re.search(r"\b(npm|yarn|pnpm) (install|add|i)\b|\bgem install\b|\bcargo install\b", line))
    yield bool(re.search(r"\b(curl|wget)\b.*\|\s*(sudo )?(ba|z|da)?sh\b", line))
    for image in re.findall(r"\bdocker (?:image )?pull (?:--\S+ )*[\"']?([^\s\"']+)", line):
        yield not re.search(DIGEST, image)
    if re.search(r"\bdocker buildx create\b", line):
        yield not re.search(f"image=\\S+{DIGEST}", line)
    if re.search(r"--sbom\b|type=sbom", line):
        yield not re.search(f"generator=\\S+{DIGEST}", line)


def scripts() -> Iterator[tuple[str, str, Mapping[str, str]]]:
    for workflow, job in JOBS:
        for step in steps(workflow, job):
            if "run" in step:
                given = {**WORKFLOWS[workflow]["jobs"][job].get("env", {}), **step.get("env", {})}
                yield f"{workflow} {job}", step["run"], {name: str(value) for name, value in given.items()}


@pytest.mark.parametrize(("job", "script", "variables"), list(scripts()))
def test_a_script_of_a_workflow_fetches_nothing_that_can_change(
    job: str, script: str, variables: Mapping[str, str]
) -> None:
    assert unpinned_tools(script, variables) == [], job


def test_the_makefile_fetches_nothing_that_can_change() -> None:
    text = (ROOT / "Makefile").read_text()
    assert "helm@$(@F:helm-%=%)" in text
    assert re.search(r"^HELM3 := \S+/helm-v\d+\.\d+\.\d+$", text, re.MULTILINE)
    assert unpinned_tools(text.replace("$(@F:helm-%=%)", "v3.0.0")) == []


@pytest.mark.parametrize("target", Target)
def test_libraries_of_an_engine_image_come_by_the_hashes_of_the_lock(target: Target) -> None:
    commands = build.library_commands("uv", target, Path("context"))
    assert [found for command in commands for found in unpinned_tools(" ".join(command))] == []


def test_the_pip_that_fetches_wheels_is_one_version_everywhere() -> None:
    texts = [(ROOT / name).read_text() for name in ("operator/build.py", ".github/workflows/release.yaml")]
    (version,) = {found for text in texts for found in re.findall(r"pip==([\d.]+)", text)}
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", version)
    assert ", PIP," in texts[0]
