"""``spec`` of a SpeculativeModel: its parts."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from outrider.api.base import ApiModel
from outrider.api.engine import Engine
from outrider.api.inference_pool import InferencePool
from outrider.api.model import Model
from outrider.api.parallelism import Parallelism
from outrider.api.pod_resources import Resources
from outrider.api.pod_template import PodTemplate
from outrider.api.quantity import MAX_PODS
from outrider.api.rollout import Rollout
from outrider.api.speculation import Speculation
from outrider.api.speculation_fields import Verification
from outrider.api.target import Target
from outrider.api.tuning import Actuation, TuningMode
from outrider.api.weights import Cache
from outrider_protocol.methods import Method
from outrider_protocol.schedule import Schedule


def _stored_default(part: type[ApiModel]) -> FieldInfo:
    # Stored at creation, so an operator with other defaults does not restart what runs already.
    default: JsonDict = part().model_dump(mode="json", by_alias=True, exclude_none=True)
    return FieldInfo(json_schema_extra={"default": {k: v for k, v in default.items() if v not in ({}, [])}})


def _no_model() -> Model:
    # What code without a notion of `target` sees: weights of no place, served without drafts.
    return Model.model_construct(uri="")


def _no_speculation() -> Speculation:
    return Speculation.model_construct(method=Method.NONE)


class SpecFields(ApiModel):
    """The parts of ``spec``, and what follows from them."""

    model: Model = Field(default_factory=_no_model)
    """The model to serve. Required, unless `target` names pods that run already."""
    speculation: Speculation = Field(default_factory=_no_speculation)
    """Speculative decoding: method, drafter, draft lengths, tuning. Required with `model`."""
    target: Target | None = None
    """Pods of another owner to tune, in place of `model` and all fields about pods."""
    engine: Annotated[Engine, _stored_default(Engine)] = Field(default_factory=Engine)
    """The inference engine."""
    parallelism: Annotated[Parallelism, _stored_default(Parallelism)] = Field(default_factory=Parallelism)
    """The GPUs and nodes of one replica."""
    resources: Resources | None = None
    """Compute resources of the engine in each pod. Default: limits nvidia.com/gpu = tensor x pipeline x data,
    divided by nodes. Your resources replace the default; without GPUs in them, the engine uses none."""
    replicas: Annotated[int, Field(ge=0, le=MAX_PODS)] = 1
    """Number of engines: pods, or groups of pods with `parallelism.nodes`. Default: 1."""
    rollout: Annotated[Rollout, _stored_default(Rollout)] = Field(default_factory=Rollout)
    """Replacement of pods."""
    cache: Cache | None = None
    """A volume for downloaded weights. Default: each pod downloads hf:// weights for itself. s3:// needs a
    volume."""
    inference_pool: InferencePool | None = None
    """The pods as a backend of gateways with the Gateway API Inference Extension, beside the Service. A
    change restarts the engines, because pods get other labels."""
    pod_template: PodTemplate | None = None
    """An overlay on the engine pods."""

    def verifying(self, *, adaptive: bool) -> Self:
        """Return the spec with one verification in place of Auto."""
        verification = Verification.ADAPTIVE if adaptive else Verification.FIXED
        speculation = self.speculation.model_copy(update={"verification": verification})
        return self.model_copy(update={"speculation": speculation})

    @property
    def rolls_out(self) -> bool:
        """Whether another K needs a restart of the engines, by the wish of the user."""
        return self.speculation.tuning.actuation is Actuation.ROLLOUT

    @property
    def live(self) -> bool:
        """Whether K can change, in the running engine or by a restart.

        The method has to allow it in this engine, and `candidates` must have more than one K. Where only a
        restart changes K, `actuation: Rollout` is needed. An engine that verifies adaptively keeps one K
        where it is not tuned.
        """
        wanted = self.speculation
        reached = self.rolls_out or not self._needs_a_restart
        several = len(wanted.effective_candidates()) > 1
        fixed = wanted.keeps_one_k or wanted.method in self.engine.admission.static
        return wanted.live and reached and several and not fixed

    @property
    def one_k(self) -> bool:
        """Whether engines have one K for all batch sizes, so that another K needs a restart."""
        return self.live and self._needs_a_restart

    @property
    def _needs_a_restart(self) -> bool:
        """Whether no running engine changes K: with data parallelism, and by some methods of some engines."""
        return self.parallelism.data > 1 or self.speculation.method in self.engine.admission.relaunched

    @property
    def tuning_mode(self) -> TuningMode:
        """The mode of the tuner; Off if K cannot change."""
        if self.target is not None:
            return self.target.tuning.mode
        return self.speculation.tuning.mode if self.live else TuningMode.OFF

    def candidates(self) -> tuple[int, ...]:
        """Every K that an engine of this model is launched with, rising; (0,) without speculation."""
        return self.speculation.effective_candidates(live=self.live)

    def static_schedule(self) -> Schedule:
        """The static schedule."""
        if self.one_k and self.speculation.schedule is None:
            # The row for small batches: both directions are short from its K.
            return Schedule.constant(self.speculation.static_schedule(live=True).k_at(1))
        return self.speculation.static_schedule(live=self.live)
