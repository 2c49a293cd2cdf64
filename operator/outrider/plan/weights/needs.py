"""Which weights of a model are to be downloaded, and what its engines load once they are there. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from outrider.api.json_object import Json
from outrider.api.model import Model
from outrider.api.quantity import Scheme, parse_uri
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider.plan.names import weights_claim
from outrider.runtimes.artifacts import uses_hub

MODEL = "model"
DRAFTER = "drafter"

_DOWNLOADED = (Scheme.HF, Scheme.S3)


@dataclass(frozen=True, slots=True)
class Artifact:
    """Weights on the hub, or in a bucket."""

    role: str
    uri: str
    revision: str | None
    endpoint: str | None = None
    """URL of the store with the bucket; None for AWS."""

    @property
    def in_a_bucket(self) -> bool:
        """Not on the hub."""
        return parse_uri(self.uri).scheme is Scheme.S3

    def to_wire(self) -> Json:
        """As the download program reads it."""
        place = parse_uri(self.uri)
        wire: Json = {"role": self.role}
        if place.bucket is None:
            wire["repository"] = place.path
        else:
            wire |= {"bucket": place.bucket, "folder": place.path}
        more = {"revision": self.revision, "endpoint": self.endpoint if self.in_a_bucket else None}
        return {**wire, **{name: value for name, value in more.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Needs:
    """What one Job brings."""

    claim: str
    """The PersistentVolumeClaim that gets it."""
    shared: bool
    """The claim was there before, and others may use it."""
    artifacts: tuple[Artifact, ...]

    @property
    def digest(self) -> str:
        """Changes with every wish that another download has to fulfil."""
        text = json.dumps([self.claim, [artifact.to_wire() for artifact in self.artifacts]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def needs_of(model: SpeculativeModel) -> Needs | None:
    """What ``spec.cache`` asks for; None where nothing is to be downloaded onto a volume."""
    spec = model.spec
    if spec.cache is None:
        return None
    drafter = spec.speculation.drafter
    endpoint = None if spec.cache.s3 is None else spec.cache.s3.endpoint
    wanted = [Artifact(MODEL, spec.model.uri, spec.model.revision, endpoint)]
    if drafter is not None:
        wanted.append(Artifact(DRAFTER, drafter.uri, drafter.revision, endpoint))
    artifacts = tuple(artifact for artifact in wanted if parse_uri(artifact.uri).scheme in _DOWNLOADED)
    claim = spec.cache.claim or weights_claim(model.metadata.name)
    return Needs(claim, spec.cache.claim is not None, artifacts)


def brought(needs: Needs, weights: WeightsStatus | None) -> bool:
    """Whether all that is wanted is on the volume."""
    if weights is None or weights.wanted != needs.digest:
        return False
    there = {MODEL: weights.model, DRAFTER: weights.drafter}
    return all(there[artifact.role] is not None for artifact in needs.artifacts)


def from_the_volume(spec: Spec, needs: Needs, weights: WeightsStatus | None) -> Spec:
    """``spec`` as engines carry it out: downloaded weights lie in a claim, and need no hub and no token.

    A LoRA adapter of the hub needs both.

    weights: None where only the mounts matter.
    """
    roles = {artifact.role for artifact in needs.artifacts}
    model, drafter = spec.model, spec.speculation.drafter
    if MODEL in roles:
        model = model.model_copy(update=_in_claim(needs, None if weights is None else weights.model))
    if DRAFTER in roles and drafter is not None:
        drafter = drafter.model_copy(update=_in_claim(needs, None if weights is None else weights.drafter))
    speculation = spec.speculation.model_copy(update={"drafter": drafter})
    there = spec.model_copy(update={"model": model, "speculation": speculation})
    return there if uses_hub(there) else there.model_copy(update={"model": _without_token(model)})


def _in_claim(needs: Needs, artifact: ArtifactStatus | None) -> dict[str, str | None]:
    path = "" if artifact is None else artifact.path
    return {"uri": f"pvc://{needs.claim}/{path}", "revision": None}


def _without_token(model: Model) -> Model:
    return model.model_copy(update={"secret_ref": None})
