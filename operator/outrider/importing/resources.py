"""``spec.resources``: compute resources of the engine's container."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue, TypeAdapter, ValidationError

from outrider.api.quantity import Quantity
from outrider.importing.findings import Findings
from outrider.importing.workload import an_object, objects, text
from outrider.plan.overlay import Json

_QUANTITY: TypeAdapter[int | str] = TypeAdapter(Quantity)


def resources(container: Json, pod: Json, findings: Findings) -> tuple[Json, bool]:
    """The field, and whether it has every claim of devices; empty where the source asks for nothing."""
    given = an_object(container.get("resources"))
    amounts: Json = {}
    for kind in ("limits", "requests"):
        found = _amounts(kind, an_object(given.get(kind)), findings)
        if found:
            amounts[kind] = found
    claims = _claims(given, pod)
    if claims:
        amounts["claims"] = claims
    return amounts, bool(claims)


def _amounts(kind: str, given: Mapping[str, JsonValue], findings: Findings) -> Json:
    found: Json = {}
    for name, amount in given.items():
        written = str(amount) if isinstance(amount, float) else amount
        try:
            found[name] = _QUANTITY.validate_python(written)
        except ValidationError:
            findings.dropped(
                f"resources.{kind}.{name}", "write a quantity such as 1, 500m or 64Gi; set spec.resources"
            )
    return found


def _claims(given: Json, pod: Json) -> list[JsonValue]:
    """Each claim of the container where all of them come from templates."""
    templates = {
        text(each.get("name")): text(each.get("resourceClaimTemplateName"))
        for each in objects(pod.get("resourceClaims"))
    }
    names = [text(each.get("name")) for each in objects(given.get("claims"))]
    if not names or not all(templates.get(name) for name in names):
        return []
    return [{"name": name, "resourceClaimTemplateName": templates[name]} for name in names]
