"""`plan`: one SpeculativeModel in, its child objects out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import children
from outrider.plan.children import Manifest
from outrider.plan.methods import unsupported_reason
from outrider.plan.overlay import Json
from outrider.plan.pod import pod_template
from outrider.plan.settings import PlanSettings

Problem = tuple[DegradedReason, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """The wanted state of one model."""

    children: tuple[Manifest, ...]
    """Child objects in the order in which they are applied; empty when there are problems."""
    revision: str
    """Hash of the pod template, and the value of its revision label; "" when there are problems."""
    problems: tuple[Problem, ...] = ()
    """Why the spec cannot be carried out."""

    def child(self, kind: str) -> Manifest | None:
        """The child of this kind; there is at most one."""
        return next((child for child in self.children if child["kind"] == kind), None)


def plan(model: SpeculativeModel, *, settings: PlanSettings, control_token: str) -> Plan:
    """The children of ``model``. Pure: equal arguments give equal plans.

    ``control_token``: bearer token of the engines' control API, kept in the model's Secret.
    """
    image = model.spec.engine.image or settings.engine_images.get(model.spec.engine.version)
    problems = _problems(model, image=image)
    if problems or image is None:
        return Plan((), "", problems)
    try:
        template = pod_template(model, image=image, settings=settings)
    except ValueError as error:
        return Plan((), "", ((DegradedReason.INVALID_SPEC, str(error)),))
    revision = _revision(template)
    return Plan(
        (
            children.service_account(model),
            children.config_map(model),
            children.secret(model, control_token=control_token),
            children.service(model),
            children.deployment(model, template=template, revision=revision),
        ),
        revision,
    )


def _problems(model: SpeculativeModel, *, image: str | None) -> tuple[Problem, ...]:
    engine = model.spec.engine
    problems: list[Problem] = []
    reason = unsupported_reason(model.spec.speculation.method, engine.version)
    if reason is not None:
        problems.append((DegradedReason.UNSUPPORTED, reason))
    if image is None:
        message = f"the operator has no image for vLLM {engine.version}; set spec.engine.image"
        problems.append((DegradedReason.UNSUPPORTED, message))
    return tuple(problems)


def _revision(template: Json) -> str:
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]
