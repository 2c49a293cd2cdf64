"""What is known of the launches of models: defects of their releases, and K that stays. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from outrider.api.resource import SpeculativeModel
from outrider.cli.doctor.evidence import Unseen
from outrider.cli.doctor.findings import Finding, bad, fine, unseen, warning
from outrider.plan import settled
from outrider.plan.runtimes import runtime_of

_SUBJECT = "launches"
_ACTION = "docs/runbooks/known-defects.md has what to do about each"


def known_limits(models: Iterable[SpeculativeModel] | Unseen) -> Iterator[Finding]:
    """Of each model, by its spec and the weights that were downloaded for it."""
    if isinstance(models, Unseen):
        yield unseen(_SUBJECT, models.why)
        return
    looked_at = tuple(models)
    found = tuple(finding for model in looked_at for finding in limits_of(model))
    yield from found
    if looked_at and not found:
        yield fine(_SUBJECT, "no known defect of the engines' releases meets them")


def limits_of(model: SpeculativeModel) -> Iterator[Finding]:
    """Of one model."""
    name, weights = f"{model.metadata.namespace}/{model.metadata.name}", model.status.weights
    runtime = runtime_of(model.spec)
    refused = runtime.unsupported_reason(settled(model).spec, weights)
    if refused is not None:
        yield bad(_SUBJECT, f"{name} is refused: {refused}", _ACTION)
    for told in runtime.advice(model.spec, weights):
        yield warning(_SUBJECT, f"{name}: {told}", _ACTION)
