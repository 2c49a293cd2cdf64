"""Which image an engine starts from, and whether it has Outrider's plugin."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.api.engine import Engine, Plugin
from outrider.runtimes.runtime import EngineImage


def engine_image(engine: Engine, images: Mapping[str, str], *, own: str) -> EngineImage | None:
    """That of the spec, else the operator's for this version, else the engine's own; None: there is none.

    A choice of the plugin passes over operator's images that do not go with it.

    images: the operator's, by version. own: the image of the engine's makers.
    """
    given = images.get(engine.version)
    if given is not None and engine.plugin not in (None, _source(engine, given)):
        given = None
    reference = engine.image or given
    if reference is None:
        if engine.plugin is Plugin.BAKED:
            return None
        reference = own
    return EngineImage(reference, (engine.plugin or _source(engine, reference)) is Plugin.BAKED)


def _source(engine: Engine, image: str) -> Plugin:
    """Where an engine of this image has the plugin from, by the name of the image."""
    return Plugin.INJECTED if engine.is_stock(image) else Plugin.BAKED
