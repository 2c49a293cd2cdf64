"""``spec.model``: the model that is served, and the names that clients send."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, TextRule, rule, text_rules
from outrider.api.quantity import ContextLength, Name, Uri

ServedName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    *text_rules(
        TextRule(
            "[^ ,-][^ ,]*",
            "'{}' is not a name of a model: names have no blanks or commas, and do not begin with a dash. "
            "Write one name into servedName, and others into servedAliases",
        )
    ),
]


class SecretKey(ApiModel):
    """A key of a Secret in the model's namespace."""

    name: Name
    """Name of the Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = "token"
    """Key in the Secret."""


class Model(ApiModel):
    """The model that is served."""

    uri: Uri
    """Address of the model's weights: hf://org/name, s3://bucket/folder, oci://registry/image:tag#folder,
    pvc://claim/path or file:///path."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an hf:// model; pin a commit in production. For an s3:// model, the revision
    in status.weights; Outrider then refuses other objects. Default: main, or the present objects."""
    served_name: ServedName | None = None
    """The name that clients send as `model`, and the one in metrics. Default: the name of this object."""
    served_aliases: Annotated[list[ServedName], Field(max_length=16)] = Field(default_factory=list)
    """Further names that clients may send."""
    max_length: ContextLength | None = None
    """Maximum context in tokens, prompt and answer together. Examples: 8192, 160K (times 1024), 25.6k (times
    1000), or auto for the maximum that fits into the GPU's memory. Default: the model's own."""
    secret_ref: SecretKey | None = None
    """The Hugging Face token for hf:// models and drafters."""

    @rule(
        "!has(self.revision) || self.uri.startsWith('hf://') || self.uri.startsWith('s3://')",
        "spec.model.revision applies to hf:// and s3:// only, and uri is {uri}; leave it out",
        field=".revision",
    )
    def _revision_has_a_hub(self) -> bool:
        return self.revision is None or self.uri.startswith(("hf://", "s3://"))

    @rule(
        "!has(self.servedAliases) || self.servedAliases.all(a, self.servedAliases.exists_one(b, b == a) && "
        "(!has(self.servedName) || self.servedName != a))",
        "spec.model.servedAliases: name each once, and leave out servedName",
        field=".servedAliases",
    )
    def _names_differ(self) -> bool:
        names = [self.served_name, *self.served_aliases]
        return len(set(names)) == len(names)

    @property
    def longest_context(self) -> int | None:
        """Maximum context in tokens; None for the model's own, or for the maximum that fits."""
        return self.max_length if isinstance(self.max_length, int) else None
