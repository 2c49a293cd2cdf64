"""``spec.engine``: the inference engine in each pod, with its flags and LoRA adapters."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from outrider.api.base import ApiModel, rule
from outrider.api.engine_args import EngineArgs
from outrider.api.model import ServedName
from outrider.api.quantity import Name, Uri, Version
from outrider_protocol.releases import DEFAULT_RELEASE


class RuntimeKind(StrEnum):
    """The kinds of inference engines; `outrider.runtimes` has the registry of them."""

    VLLM = "vLLM"


class ModelRunner(StrEnum):
    """The part of vLLM that runs a step; it has two."""

    AUTO = "Auto"
    V1 = "V1"
    V2 = "V2"


class Plugin(StrEnum):
    """Where an engine has Outrider's plugin from."""

    BAKED = "Baked"
    INJECTED = "Injected"


STOCK_IMAGE = (
    "(.*/)?(vllm/vllm-[a-z0-9-]+|vllm-[a-z0-9-]*release-repo|rocm/vllm(-dev)?|nvidia/vllm)"
    "(:[^/]*)?(@sha256:[0-9a-f]+)?"
)
"""Images of vLLM without Outrider's plugin, by the repository, in any registry: ``vllm/vllm-openai``,
``public.ecr.aws/…/vllm-cpu-release-repo``, ``rocm/vllm``, ``nvcr.io/nvidia/vllm``."""


class LoraAdapter(ApiModel):
    """A LoRA adapter of the model that each engine loads at its start."""

    name: ServedName
    """The name that clients send as `model` to use it."""
    uri: Uri
    """Address of the adapter: hf://org/name, oci://registry/image:tag#folder, pvc://claim/path or
    file:///path. Not s3://."""

    @rule(
        "!self.uri.startsWith('s3://')",
        "spec.engine.loraAdapters: Outrider downloads only model and drafter from a bucket, and {uri} is in "
        "one; put the adapter on hf://, oci://, pvc:// or file://",
        field=".uri",
    )
    def _engines_can_read_it(self) -> bool:
        return not self.uri.startswith("s3://")


class Engine(ApiModel):
    """The inference engine in each pod."""

    runtime: RuntimeKind = RuntimeKind.VLLM
    """Kind of the engine. vLLM is the only one."""
    version: Annotated[
        Version,
        Field(
            description="Version of the engine. It determines the available methods and the default image. "
            f"Default: {DEFAULT_RELEASE}."
        ),
    ] = DEFAULT_RELEASE
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with the engine. Default: the operator's image for this version (`engineImages`), or vLLM's own,
    vllm/vllm-openai."""
    plugin: Plugin | None = None
    """Where the engine has Outrider's plugin from. Injected: an init container copies it beside the engine,
    so any image of vLLM will do. Baked: the image has it. Default: Injected if the image is vLLM's own by its
    name, else Baked."""
    model_runner: ModelRunner = ModelRunner.AUTO
    """vLLM's model runner. Auto: the one on which K changes at the lowest cost, or vLLM's choice if K cannot
    change. docs/reference/methods.md has the list."""
    args: EngineArgs = Field(default_factory=dict)
    """Flags of the engine without leading dashes. Example: `max-num-seqs: 64`. True sets a flag and false its
    `--no-` form. A list gives several values, and an object is passed as JSON. A missing key leaves the flag
    to vLLM. Admission refuses flags that other fields set."""
    lora_adapters: Annotated[
        list[LoraAdapter],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """LoRA adapters. An engine that cannot load one does not start. A change restarts the engines."""
    kv_transfer_peer: Name | None = None
    """SpeculativeModel in this namespace at the other end of the KV connector: the decode side of a prefill
    side, or the reverse. Outrider does not roll out speculation that differs between both."""
    port: Annotated[int, Field(ge=1024, le=65535)] = 8000
    """Port of the engine's HTTP server in the pod. Default: 8000."""

    @property
    def image_is_stock(self) -> bool:
        """Whether the named image is vLLM's own, by its name."""
        return self.image is not None and re.fullmatch(STOCK_IMAGE, self.image) is not None

    @rule(
        "!has(self.loraAdapters) || "
        "self.loraAdapters.all(a, self.loraAdapters.exists_one(b, b.name == a.name))",
        "spec.engine.loraAdapters: every adapter needs a name of its own",
        field=".loraAdapters",
    )
    def _adapters_differ(self) -> bool:
        return len({adapter.name for adapter in self.lora_adapters}) == len(self.lora_adapters)
