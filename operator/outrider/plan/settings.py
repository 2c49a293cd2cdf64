"""What the operator's administrator decides for all models, and the keys that the operator makes for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from outrider.plan.network_peers import ControlPeers
from outrider_protocol.releases import CPU_RELEASE, DEFAULT_RELEASE

DEFAULT_ENGINE_IMAGES: Mapping[str, str] = {
    release: f"outrider/engine:{release}" for release in (CPU_RELEASE, DEFAULT_RELEASE)
}
"""Engine version -> image that `engine_image/Dockerfile` builds for it."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Defaults for all models, from Helm values."""

    engine_images: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_ENGINE_IMAGES))
    """Engine version -> image with the engine and the Outrider plugin."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of pull secrets in the model's namespace."""
    fixed_user: bool = True
    """Engine pods name their user and group; else the platform assigns them, as OpenShift does."""
    control_peers: ControlPeers | None = None
    """Who alone reaches the control API, on a port of its own; None: it is on the serving port, for all."""


@dataclass(frozen=True, slots=True)
class ControlKeys:
    """Key pair of a model's control API, in PEM. Engines read the public key alone."""

    private: str = field(repr=False)
    public: str
