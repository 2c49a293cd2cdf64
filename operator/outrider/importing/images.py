"""The image of a source: which vLLM it has, and how an engine of it gets Outrider's plugin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from outrider.api.engine import STOCK_IMAGE, Plugin
from outrider.importing.findings import Findings
from outrider_protocol.releases import (
    DEFAULT_RELEASE,
    NEWEST_VERSION,
    OLDEST_VERSION,
    parse_version,
    version_text,
)

_TAG = re.compile(r".*:[a-z-]*v?([0-9]+\.[0-9]+\.[0-9]+)[^/]*")


@dataclass(frozen=True, slots=True)
class Image:
    """``spec.engine.version``, and the image and its plugin where the source's own is kept."""

    version: str
    kept: str | None = None
    plugin: Plugin | None = None
    """Where the name of the image does not say it."""


def release_of(image: str | None) -> str | None:
    """The release of vLLM that the tag of an image names; None where it names none."""
    found = None if image is None else _TAG.fullmatch(image.partition("@")[0])
    return None if found is None else found[1]


def image_of(image: str | None, *, plain: bool, findings: Findings) -> Image:
    """What the engine is started from: the source's image where Outrider serves its release.

    plain: without Outrider's plugin beside it.
    """
    version = release_of(image)
    if image is None or version is None:
        return _without_a_release(image, plain=plain, findings=findings)
    oldest, newest = version_text(OLDEST_VERSION), version_text(NEWEST_VERSION)
    if OLDEST_VERSION <= parse_version(version) <= NEWEST_VERSION:
        return Image(version, image, None if plain else _plugin_of(image))
    findings.dropped(
        f"image {image}",
        f"Outrider serves vLLM {oldest} to {newest}, and starts its own image of {DEFAULT_RELEASE}; take a "
        "newer image",
    )
    findings.check(
        "spec.engine.version",
        f"the source runs vLLM {version}, and the SpeculativeModel vLLM {DEFAULT_RELEASE}; test it first",
    )
    return Image(DEFAULT_RELEASE)


def _without_a_release(image: str | None, *, plain: bool, findings: Findings) -> Image:
    if image is None:
        findings.check("spec.engine.version", f"the source names no image; Outrider wrote {DEFAULT_RELEASE}")
        return Image(DEFAULT_RELEASE)
    if plain:
        findings.check(
            "spec.engine.version",
            f"the image names no release of vLLM; write the one that it has in place of {DEFAULT_RELEASE}",
        )
        return Image(DEFAULT_RELEASE, image)
    findings.dropped(
        f"image {image}",
        f"it names no release of vLLM, so an image of vLLM {DEFAULT_RELEASE} replaces it; to keep it, write "
        "engine.image and the engine.version that it has",
    )
    return Image(DEFAULT_RELEASE)


def _plugin_of(image: str) -> Plugin | None:
    return None if re.fullmatch(STOCK_IMAGE, image) else Plugin.INJECTED
