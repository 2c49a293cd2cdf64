"""What the operator's administrator decides for all models, and the keys that the operator makes for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from outrider import __version__
from outrider.plan.network_peers import ControlPeers

DEFAULT_PLUGIN_IMAGE = f"outrider/plugin:{__version__}"
"""Image that `engine_image/Dockerfile.plugin` builds, where no operator says another."""


class NoPluginImage(ValueError):
    """An engine needs the plugin from an image of its own, and the operator has none."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Defaults for all models, from Helm values."""

    engine_images: Mapping[str, str] = field(default_factory=dict)
    """Engine version -> image with the engine."""
    plugin_image: str | None = DEFAULT_PLUGIN_IMAGE
    """Image that brings the plugin to engines whose own image lacks it; None: there is none."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of pull secrets in the model's namespace."""
    fixed_user: bool = True
    """Engine pods name their user and group; else the platform assigns them, as OpenShift does."""
    control_peers: ControlPeers | None = None
    """Who alone reaches the control API, on a port of its own; None: it is on the serving port, for all."""

    def image_of_plugin(self) -> str:
        """The image that brings the plugin.

        Raises:
            NoPluginImage: there is none.
        """
        if self.plugin_image is None:
            raise NoPluginImage(
                "the engine's image lacks Outrider's plugin, and the operator has no image that brings it. "
                "Set the chart's value pluginImage, or spec.engine.image to an image with the plugin"
            )
        return self.plugin_image


@dataclass(frozen=True, slots=True)
class ControlKeys:
    """Key pair of a model's control API, in PEM. Engines read the public key alone."""

    private: str = field(repr=False)
    public: str
