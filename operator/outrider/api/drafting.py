"""Parts of ``spec.speculation``: the drafter's weights and the rows of a table."""

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
    """The weights that make draft tokens."""

    uri: Uri
    """Where the drafter lies: hf://org/name, s3://bucket/folder, oci://registry/image:tag#folder,
    pvc://claim/path or file:///path."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an hf:// drafter; pin a commit in production. Of an s3:// drafter the revision
    in status.weights: other objects are refused."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] | None = None
    """GPUs that share the drafter: spec.parallelism.tensor, or 1 with method dspark. Default: vLLM's own,
    spec.parallelism.tensor. Heads and prediction layers always lie on the GPUs of their target."""

    @rule(
        "!has(self.revision) || self.uri.startsWith('hf://') || self.uri.startsWith('s3://')",
        "spec.speculation.drafter.revision applies to hf:// and s3:// only, and uri is {uri}; leave it out",
        field=".revision",
    )
    def _revision_has_a_hub(self) -> bool:
        return self.revision is None or self.uri.startswith(("hf://", "s3://"))


class ScheduleRow(ApiModel):
    """One row of a table: K up to a batch size."""

    max_batch_size: Annotated[int, Field(ge=1, le=MAX_BATCH_SIZE)] | None = None
    """Largest number of scheduled requests of this row, inclusive. The last row leaves it out."""
    num_speculative_tokens: DraftLength
    """K: draft tokens per request and step."""
