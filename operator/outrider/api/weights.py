"""The volume of a model's weights, and what is known of the weights on it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, TextRule, rule, text_rules
from outrider.api.conditions import StatusModel, room_for
from outrider.api.quantity import Quantity

ClaimName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class AccessMode(StrEnum):
    """Which nodes may mount a claim, in Kubernetes' words."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class Addressing(StrEnum):
    """The place of the bucket's name in a request."""

    PATH = "Path"
    VIRTUAL_HOST = "VirtualHost"


class ObjectStore(ApiModel):
    """The store of s3:// buckets and its keys. Default: AWS, with the identity of the pods' service
    account."""

    endpoint: (
        Annotated[
            str,
            Field(max_length=256),
            *text_rules(
                TextRule(
                    "https?://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9._/-]*)?",
                    "this is not the URL of a store; write one without keys, such as https://minio.storage.svc:9000",
                )
            ),
        ]
        | None
    ) = None
    """URL of an S3-compatible store. Default: AWS. Example: https://minio.storage.svc:9000."""
    region: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")] | None = None
    """Region of the buckets. Default: the environment's, else us-east-1."""
    addressing: Addressing | None = None
    """The place of the bucket's name in a request. Default: Path with an endpoint, VirtualHost without."""
    secret: ClaimName | None = None
    """Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if needed, AWS_SESSION_TOKEN. Default: the
    identity of the pods' service account."""


class Cache(ApiModel):
    """A volume onto which one Job downloads the weights of model and drafter; all pods mount it."""

    claim: ClaimName | None = None
    """An existing PersistentVolumeClaim. Models may share it."""
    size: Quantity | None = None
    """Size of a new claim, which is deleted with this model. Example: 50Gi."""
    storage_class: ClaimName | None = None
    """Storage class of that claim. Default: the cluster's."""
    access_mode: AccessMode | None = None
    """Access mode of that claim. Default: ReadWriteOnce, with which all pods run on one node."""

    s3: ObjectStore | None = None
    """The store of s3:// weights, and its keys."""

    @rule(
        "has(self.claim) != has(self.size)",
        "spec.cache: write either claim, for a PersistentVolumeClaim that exists, or size, for a new one",
    )
    def _one_claim(self) -> bool:
        return (self.claim is None) != (self.size is None)

    @rule(
        "!has(self.claim) || !(has(self.storageClass) || has(self.accessMode))",
        "spec.cache: storageClass and accessMode are for a new claim; leave them out beside claim: {claim}",
    )
    def _an_existing_claim_is_as_it_is(self) -> bool:
        return self.claim is None or (self.storage_class is None and self.access_mode is None)


Word = Annotated[str, room_for(512), Field(max_length=512)]


class ArtifactStatus(StatusModel):
    """Downloaded weights."""

    uri: Word
    """Address of the source."""
    revision: Word
    """Commit of the wanted revision at the download. For s3://, a digest of the store's data on all
    objects."""
    path: Word
    """Path on the volume."""
    size: Word
    """Size. Example: 16.1 GB."""
    vocabulary_size: Annotated[int, Field(ge=1)] | None = None
    """Vocabulary size in tokens. This field and the following ones are from config.json; absent if it lacks
    them."""
    hidden_size: Annotated[int, Field(ge=1)] | None = None
    """Width of a layer."""
    layers: Annotated[int, Field(ge=1)] | None = None
    """Number of layers."""
    experts: Annotated[int, Field(ge=1)] | None = None
    """Experts per layer of a mixture-of-experts model."""
    target_hidden_size: Annotated[int, Field(ge=1)] | None = None
    """Width of the target model for which a drafter was made."""
    longest_context: Annotated[int, Field(ge=1)] | None = None
    """Maximum context of the model in tokens."""
    made_for_method: Word | None = None
    """Method of a drafter in the Speculators format. Example: eagle3."""
    made_for_tokens: Annotated[int, Field(ge=1)] | None = None
    """Draft length for which a drafter in the Speculators format was trained."""
    chat_template: Word | None = None
    """Digest of the chat template beside the weights."""
    architecture: Word | None = None
    """Class of the model. Example: Qwen3ForCausalLM."""
    layer_kinds: Word | None = None
    """Kinds of layers if config.json lists them. Example: full_attention,sliding_attention."""

    @property
    def size_bytes(self) -> int | None:
        """The size in bytes, to a tenth of a gigabyte; None if `size` has another form."""
        number, _, unit = self.size.partition(" ")
        try:
            return round(float(number) * 1e9) if unit == "GB" else None
        except (ValueError, OverflowError):
            return None


class WeightsStatus(StatusModel):
    """The weights of `spec.cache`."""

    wanted: Word
    """Digest of the requested weights; the other fields belong to this request only."""
    progress: Word | None = None
    """Progress of the download; absent before and after it. Example: Downloading 12.3 of 16.1 GB."""
    model: ArtifactStatus | None = None
    """The model's weights, after the download."""
    drafter: ArtifactStatus | None = None
    """The drafter's weights, after the download."""
    advice: Word | None = None
    """Advice on the drafter; absent without any."""
