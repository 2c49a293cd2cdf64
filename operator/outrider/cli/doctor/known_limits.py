"""Known issues of launches: defects of releases of vLLM, and launches in which K cannot change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from outrider.api.resource import SpeculativeModel
from outrider.cli.doctor.evidence import Unseen
from outrider.cli.doctor.findings import Finding, bad, fine, unseen, warning
from outrider.plan import settled
from outrider.plan.runtimes import runtime_of

_SUBJECT = "launches"
_ACTION = "see Known defects in the documentation"


def known_limits(models: Iterable[SpeculativeModel] | Unseen) -> Iterator[Finding]:
    """Findings about each model, by its spec and its downloaded weights."""
    if isinstance(models, Unseen):
        yield unseen(_SUBJECT, models.why)
        return
    looked_at = tuple(models)
    found = tuple(finding for model in looked_at for finding in limits_of(model))
    yield from found
    if looked_at and not found:
        yield fine(_SUBJECT, "no known defect of vLLM affects them")


def limits_of(model: SpeculativeModel) -> Iterator[Finding]:
    """Findings about one model."""
    name, weights = f"{model.metadata.namespace}/{model.metadata.name}", model.status.weights
    runtime = runtime_of(model.spec)
    refused = runtime.unsupported_reason(settled(model).spec, weights)
    if refused is not None:
        yield bad(_SUBJECT, f"{name} is refused: {refused}", _ACTION)
    for issue in runtime.advice(model.spec, weights):
        yield warning(_SUBJECT, f"{name}: {issue}", _ACTION)
