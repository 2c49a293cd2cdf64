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
    """Where in a request the bucket's name stands."""

    PATH = "Path"
    VIRTUAL_HOST = "VirtualHost"


class ObjectStore(ApiModel):
    """Where the buckets of s3:// are, and with which keys they are read. Default: AWS, with the identity of
    the pods' service account."""

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
    """URL of a store that speaks S3. Default: AWS."""
    region: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")] | None = None
    """Region of the buckets. Default: the environment's, else us-east-1."""
    addressing: Addressing | None = None
    """Where a request names the bucket. Default: Path with an endpoint, VirtualHost without."""
    secret: ClaimName | None = None
    """Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where the keys need one, AWS_SESSION_TOKEN.
    Default: the identity of the pods' service account."""


class Cache(ApiModel):
    """A volume onto which one Job downloads the weights of model and drafter; all pods mount it."""

    claim: ClaimName | None = None
    """An existing PersistentVolumeClaim. Models may share it."""
    size: Quantity | None = None
    """Size of a claim that is made for this model, and goes with it."""
    storage_class: ClaimName | None = None
    """Storage class of that claim. Default: the cluster's."""
    access_mode: AccessMode | None = None
    """Which nodes may mount that claim. Default: ReadWriteOnce, with which all pods run on one node."""

    s3: ObjectStore | None = None
    """For s3:// weights: the store that has the buckets, and its keys."""

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
    """Weights that were downloaded."""

    uri: Word
    """Where they come from."""
    revision: Word
    """The commit that the wanted revision named when they were downloaded; of s3:// a digest of what the
    store told of all objects."""
    path: Word
    """Where they lie on the volume."""
    size: Word
    """How large they are, such as 16.1 GB."""
    vocabulary_size: Annotated[int, Field(ge=1)] | None = None
    """Of their config.json, as all that follows; absent where it is not told."""
    hidden_size: Annotated[int, Field(ge=1)] | None = None
    """Width of a layer."""
    layers: Annotated[int, Field(ge=1)] | None = None
    """Number of layers."""
    experts: Annotated[int, Field(ge=1)] | None = None
    """Of a mixture of experts: how many a layer has."""
    target_hidden_size: Annotated[int, Field(ge=1)] | None = None
    """Of a drafter that says for which width of its target it was made."""
    longest_context: Annotated[int, Field(ge=1)] | None = None
    """Tokens of the longest request that they were made for."""
    made_for_method: Word | None = None
    """Of a drafter in the Speculators format, such as eagle3."""
    made_for_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of such a drafter: the draft length that it was trained for."""
    chat_template: Word | None = None
    """Digest of the chat template that lies beside them."""
    architecture: Word | None = None
    """Class of the model, such as Qwen3ForCausalLM."""
    layer_kinds: Word | None = None
    """Kinds of its layers where they are listed, such as full_attention,sliding_attention."""

    @property
    def size_bytes(self) -> int | None:
        """To a tenth of a gigabyte; None where `size` says something else."""
        number, _, unit = self.size.partition(" ")
        try:
            return round(float(number) * 1e9) if unit == "GB" else None
        except (ValueError, OverflowError):
            return None


class WeightsStatus(StatusModel):
    """The weights of `spec.cache`."""

    wanted: Word
    """Digest of what was asked for; what is told belongs to no other wish."""
    progress: Word | None = None
    """How far the download is, such as Downloading 12.3 of 16.1 GB; absent before and after it."""
    model: ArtifactStatus | None = None
    """The model's, once all is there."""
    drafter: ArtifactStatus | None = None
    """The drafter's, likewise."""
    advice: Word | None = None
    """What of the drafter will not go as well as it could; absent where nothing is known."""
