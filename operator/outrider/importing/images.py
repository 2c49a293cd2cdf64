"""The image of a source: which release it has, and how an engine of it gets Outrider's plugin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from outrider.api.engine import Plugin
from outrider.api.engines import ADMISSIONS
from outrider.importing.engines import EngineReader
from outrider.importing.findings import Findings

_TAG = re.compile(r".*:[a-z-]*v?([0-9]+\.[0-9]+\.[0-9]+)[^/]*")


@dataclass(frozen=True, slots=True)
class Image:
    """``spec.engine.version``, and the image and its plugin where the source's own is kept."""

    version: str
    kept: str | None = None
    plugin: Plugin | None = None
    """Where the name of the image does not say it."""


def release_of(image: str | None) -> str | None:
    """The release of the engine that the tag of an image names; None where it names none."""
    found = None if image is None else _TAG.fullmatch(image.partition("@")[0])
    return None if found is None else found[1]


def image_of(image: str | None, reader: EngineReader, *, plain: bool, findings: Findings) -> Image:
    """What the engine is started from: the source's image where Outrider serves its release.

    plain: without Outrider's plugin beside it.
    """
    version = release_of(image)
    if image is None or version is None:
        return _without_a_release(image, reader, plain=plain, findings=findings)
    kind, default = reader.kind, reader.default
    if reader.serves(version):
        return Image(version, image, None if plain else _plugin_of(image, reader))
    findings.dropped(
        f"image {image}",
        f"Outrider serves {kind} {reader.span}, and starts its own image of {default}; take a newer image",
    )
    findings.check(
        "spec.engine.version",
        f"the source runs {kind} {version}, and the SpeculativeModel {kind} {default}; test it first",
    )
    return Image(default)


def _without_a_release(image: str | None, reader: EngineReader, *, plain: bool, findings: Findings) -> Image:
    kind, default = reader.kind, reader.default
    if image is None:
        findings.check("spec.engine.version", f"the source names no image; Outrider wrote {default}")
        return Image(default)
    if plain:
        findings.check(
            "spec.engine.version",
            f"the image names no release of {kind}; write the one that it has in place of {default}",
        )
        return Image(default, image)
    findings.dropped(
        f"image {image}",
        f"it names no release of {kind}, so an image of {kind} {default} replaces it; to keep it, write "
        "engine.image and the engine.version that it has",
    )
    return Image(default)


def _plugin_of(image: str, reader: EngineReader) -> Plugin | None:
    own = re.fullmatch(ADMISSIONS[reader.kind].stock_image, image) is not None
    return None if own else Plugin.INJECTED
