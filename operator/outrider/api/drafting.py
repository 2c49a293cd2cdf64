"""Parts of ``spec.speculation``: the drafter's weights and the rows of a schedule."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import Uri

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
