"""``spec.engine``: the inference engine in each pod, with its flags and LoRA adapters."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field, GetJsonSchemaHandler, ValidationInfo, field_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from outrider.api.base import ApiModel, RulesBroken, rule
from outrider.api.engine_args import EngineArgs, spelling_mistakes
from outrider.api.engines import ADMISSIONS, DEFAULT_KIND, RuntimeKind
from outrider.api.engines.admission import Admission
from outrider.api.model import ServedName
from outrider.api.owned_flags import owned_in, wire_rules
from outrider.api.quantity import Name, Uri, Version
from outrider_protocol.releases import DEFAULT_RELEASE


class ModelRunner(StrEnum):
    """The part of vLLM that runs a step; it has two."""

    AUTO = "Auto"
    V1 = "V1"
    V2 = "V2"


class Plugin(StrEnum):
    """Where an engine has Outrider's plugin from."""

    BAKED = "Baked"
    INJECTED = "Injected"


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

    runtime: RuntimeKind = DEFAULT_KIND
    """Kind of the engine. With another kind than vLLM, also write `version`."""
    version: Annotated[
        Version,
        Field(
            description="Version of the engine. It determines the available methods and the default image. "
            f"Default: {DEFAULT_RELEASE}, a release of vLLM."
        ),
    ] = DEFAULT_RELEASE
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with the engine. Default: the operator's image for this version (`engineImages`), or the
    engine's own: vllm/vllm-openai, lmsysorg/sglang."""
    plugin: Plugin | None = None
    """Where the engine has Outrider's plugin from. Injected: an init container copies it beside the engine,
    so any image of the engine will do. Baked: the image has it. Default: Injected if the image is the
    engine's own by its name, else Baked."""
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
    def admission(self) -> Admission:
        """What admission knows of this kind."""
        return ADMISSIONS[self.runtime]

    def is_stock(self, image: str | None) -> bool:
        """Whether an image is the engine's own, without Outrider's plugin, by its name."""
        return image is not None and re.fullmatch(self.admission.stock_image, image) is not None

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        schema["x-kubernetes-validations"] += wire_rules()
        return schema

    @field_validator("args")
    @classmethod
    def _flags_are_the_users_own(cls, args: EngineArgs, info: ValidationInfo) -> EngineArgs:
        kind = info.data.get("runtime", DEFAULT_KIND)
        broken = (*spelling_mistakes(args), *owned_in(args, kind))
        if broken:
            raise RulesBroken(broken)
        return args

    @rule(
        " && ".join(
            f"(self.runtime != '{kind}' || self.version.matches('^{admission.version}'))"
            for kind, admission in ADMISSIONS.items()
            if admission.version
        ),
        "spec.engine.version is {version}, and {runtime} has no such release; write one of its own. "
        + ". ".join(f"Of {kind} Outrider serves {each.releases}" for kind, each in ADMISSIONS.items()),
        field=".version",
    )
    def _version_is_of_the_runtime(self) -> bool:
        return re.match(self.admission.version, self.version) is not None

    @rule(
        "!has(self.loraAdapters) || "
        "self.loraAdapters.all(a, self.loraAdapters.exists_one(b, b.name == a.name))",
        "spec.engine.loraAdapters: every adapter needs a name of its own",
        field=".loraAdapters",
    )
    def _adapters_differ(self) -> bool:
        return len({adapter.name for adapter in self.lora_adapters}) == len(self.lora_adapters)
