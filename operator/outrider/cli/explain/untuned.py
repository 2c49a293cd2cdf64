"""Why Outrider does not tune a model, by its spec alone. Pure."""

from __future__ import annotations

from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.tuning import TuningMode
from outrider.plan import settled
from outrider_protocol.methods import Method

_MODE = "tuning.mode is Off"
_SET_AUTO = "set it to Auto"


def why_untuned(model: SpeculativeModel) -> str | None:
    """One or two sentences: the cause, and what to change; None for a model that Outrider tunes."""
    found = _cause(model)
    if found is None:
        return None
    cause, change = found
    return f"Outrider does not tune this model, because {cause}. To change it, {change}."


def _cause(model: SpeculativeModel) -> tuple[str, str] | None:
    spec = model.spec
    if settled(model).spec.tuning_mode is not TuningMode.OFF:
        return None
    if spec.target is not None:
        return f"spec.target.{_MODE}", _SET_AUTO
    if not spec.live:
        return _fixed(spec)
    if spec.speculation.tuning.mode is TuningMode.OFF:
        return f"spec.speculation.{_MODE}", _SET_AUTO
    return "its engine keeps one K", "do what the condition KnownIssues says"


def _fixed(spec: Spec) -> tuple[str, str]:
    """The cause for a spec in which K cannot change, and the remedy; the first cause that holds."""
    wanted = spec.speculation
    if wanted.method is Method.NONE:
        return "spec.speculation.method is none", "choose a method that drafts"
    if not wanted.live or wanted.method in spec.engine.admission.static:
        return f"its engine keeps one K with method {wanted.method}", "choose another spec.speculation.method"
    if wanted.tuning.mode is TuningMode.OFF:
        restarts = spec.parallelism.data > 1 or wanted.method in spec.engine.admission.relaunched
        change = f"{_SET_AUTO}, with tuning.actuation: Rollout" if restarts else _SET_AUTO
        return f"spec.speculation.{_MODE}", change
    return "spec.speculation.candidates has one K only", "add 0 and other values"
