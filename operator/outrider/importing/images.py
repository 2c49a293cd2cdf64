"""The image of a source: which vLLM it has, and whether Outrider can start it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from outrider.importing.findings import Findings
from outrider_protocol.releases import (
    CPU_RELEASE,
    DEFAULT_RELEASE,
    NEWEST_VERSION,
    OLDEST_VERSION,
    parse_version,
    version_text,
)

_TAG = re.compile(r".*:[a-z-]*v?([0-9]+\.[0-9]+\.[0-9]+)[^/]*")


@dataclass(frozen=True, slots=True)
class Image:
    """``spec.engine.version``, and the image where the source's own is kept."""

    version: str
    kept: str | None = None


def image_of(image: str | None, *, keep: bool, findings: Findings) -> Image:
    """What the engine is started from. keep: the source's image, without Outrider's plugin."""
    found = None if image is None else _TAG.fullmatch(image.partition("@")[0])
    version = None if found is None else found[1]
    if keep and image is not None:
        return _kept(image, version, findings)
    chosen = version if version is not None and version in (CPU_RELEASE, DEFAULT_RELEASE) else DEFAULT_RELEASE
    if image is not None:
        findings.dropped(
            f"image {image}",
            f"live tuning needs Outrider's plugin, so the operator's image of vLLM {chosen} replaces it; "
            "to keep yours, add the plugin with engine_image/Dockerfile, or use --keep-image",
        )
    if version is not None and version != chosen:
        findings.check(
            "spec.engine.version",
            f"the source runs vLLM {version}, and the SpeculativeModel vLLM {chosen}; test it first",
        )
    elif version is None:
        findings.check(
            "spec.engine.version", f"the source's image names no release of vLLM; Outrider wrote {chosen}"
        )
    return Image(chosen)


def _kept(image: str, version: str | None, findings: Findings) -> Image:
    oldest, newest = version_text(OLDEST_VERSION), version_text(NEWEST_VERSION)
    if version is None:
        findings.check(
            "spec.engine.version",
            f"the image names no release of vLLM; write the one that it has in place of {DEFAULT_RELEASE}",
        )
        return Image(DEFAULT_RELEASE, image)
    if not OLDEST_VERSION <= parse_version(version) <= NEWEST_VERSION:
        findings.dropped(
            f"image {image}",
            f"Outrider serves vLLM {oldest} to {newest}; take a newer image",
        )
        return Image(DEFAULT_RELEASE)
    return Image(version, image)
