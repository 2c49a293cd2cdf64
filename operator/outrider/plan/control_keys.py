"""The key pair of a model's control API, as the planner puts it into children."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ControlKeys:
    """Both in PEM. Engines read the public key; the private one is the operator's alone."""

    private: str = field(repr=False)
    public: str
