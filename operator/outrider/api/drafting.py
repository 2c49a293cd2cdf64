"""Parts of ``spec.speculation``: the drafter's weights, the rows of a schedule, and defaults of K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import Uri
from outrider_protocol.methods import TRAITS, Kind, Method
from outrider_protocol.schedule import Row, Schedule

MAX_K = 32
"""No published drafter pays beyond this draft length."""

MAX_BATCH_SIZE = 65_536
"""More requests than any engine runs at once."""

DraftLength = Annotated[int, Field(ge=0, le=MAX_K)]


class DrafterSource(ApiModel):
    """The weights of the drafter."""

    uri: Uri
    """Address of the drafter's weights: hf://org/name, s3://bucket/folder, oci://registry/image:tag#folder,
    pvc://claim/path or file:///path."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an hf:// drafter; pin a commit in production. For an s3:// drafter, the
    revision in status.weights; Outrider then refuses other objects. Default: main, or the present objects."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] | None = None
    """Number of GPUs of the drafter: spec.parallelism.tensor, or 1 with method dspark. Heads and prediction
    layers always use the GPUs of their target. Default: spec.parallelism.tensor."""

    @rule(
        "!has(self.revision) || self.uri.startsWith('hf://') || self.uri.startsWith('s3://')",
        "spec.speculation.drafter.revision applies to hf:// and s3:// only, and uri is {uri}; leave it out",
        field=".revision",
    )
    def _revision_has_a_hub(self) -> bool:
        return self.revision is None or self.uri.startswith(("hf://", "s3://"))


class ScheduleRow(ApiModel):
    """One row of a schedule: K up to a batch size."""

    max_batch_size: Annotated[int, Field(ge=1, le=MAX_BATCH_SIZE)] | None = None
    """Maximum batch size of this row, inclusive. The last row leaves it out."""
    num_speculative_tokens: DraftLength
    """K: draft tokens per request and step."""


def default_candidates(method: Method, most: int) -> tuple[int, ...]:
    """The K of an engine whose spec names none, up to ``most``, ascending.

    A block has a quarter of it in place of 2. Source: docs/decisions/0076, simulated.
    """
    small = -(-most // 4) if TRAITS[method].kind is Kind.BLOCK else 2
    return tuple(sorted(k for k in {0, 1, small, -(-most // 2), most} if k <= most))


def default_schedule(method: Method, candidates: Sequence[int]) -> Schedule:
    """The static schedule of a spec that has none: the largest candidate up to a limit for each batch size.

    Half of the maximum K up to batch 8, 1 up to 32. Above: the smallest candidate. Source: the rule of thumb
    of vLLM's users. A draft of a block costs the same for every K, so K is large for longer.
    """
    most = candidates[-1]
    half, quarter = -(-most // 2), -(-most // 4)
    limits = [(8, half), (32, 1)]
    if TRAITS[method].kind is Kind.BLOCK:
        limits = [(4, most), (32, half), (128, quarter)]
    rows = [
        Row(end, max((k for k in candidates if k <= limit), default=candidates[0])) for end, limit in limits
    ]
    return Schedule((*rows, Row(None, candidates[0]))).merged()
