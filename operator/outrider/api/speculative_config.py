"""``spec.speculation.config``: keys of vLLM's own speculative configuration.

It refuses keys that other fields set, and keys that change the model's answers.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from outrider.api.base import Rule
from outrider.api.engine_args import Scalar, only_scalars
from outrider.api.text import shortened
from outrider_protocol.releases import ADAPTIVE_VERIFICATION

OWNED_KEYS: dict[str, str] = {
    "method": "set spec.speculation.method",
    "model": "set spec.speculation.drafter.uri",
    "revision": "set spec.speculation.drafter.revision",
    "num_speculative_tokens": "set spec.speculation.numSpeculativeTokens",
    "num_speculative_tokens_per_batch_size": "set spec.speculation.schedule",
    "draft_tensor_parallel_size": "set spec.speculation.drafter.tensorParallelSize",
    "tensor_parallel_size": "set spec.speculation.drafter.tensorParallelSize",
    "parallel_drafting": "set spec.speculation.method to pard or p_eagle",
    ADAPTIVE_VERIFICATION: "set spec.speculation.verification to Adaptive, or leave it out",
    "target_model_config": "leave it out; it is that of the model",
    "target_parallel_config": "leave it out; it is that of the model",
    "draft_model_config": "leave it out; it is that of the drafter",
    "draft_parallel_config": "leave it out; it is that of the drafter",
}
"""Key -> what to do instead."""

SAMPLER = "rejection_sample_method"
LOSSLESS = ("standard", "block")
"""Values of `SAMPLER` with which the model's answers are the same as without drafts."""

OWN_VOCABULARY = "use_heterogeneous_vocab"
"""Key with which vLLM maps tokens between two vocabularies; it drafts only tokens that are in both."""

MAX_KEYS = 64

_NAME = re.compile("[a-z][a-z0-9_]{0,63}")
_LOSSY = (
    f"spec.speculation.config.{SAMPLER} must be {' or '.join(LOSSLESS)}: with another one the drafter "
    "changes what the model says"
)


def _check(config: dict[str, Scalar | list[Scalar]]) -> dict[str, Scalar | list[Scalar]]:
    for name in config:
        if name in OWNED_KEYS:
            raise ValueError(_message(name))
        if not _NAME.fullmatch(name):
            shown = shortened(name, 60)
            raise ValueError(
                f"spec.speculation.config: {shown!r} is not a key of vLLM: small letters, digits and '_', "
                "such as prompt_lookup_max"
            )
    if not isinstance(config.get(OWN_VOCABULARY, False), bool):
        raise ValueError(f"spec.speculation.config.{OWN_VOCABULARY} must be true or false")
    if config.get(SAMPLER, LOSSLESS[0]) not in LOSSLESS:
        raise ValueError(_LOSSY)
    return config


def _message(key: str) -> str:
    return f"spec.speculation.config.{key} is set by Outrider: {OWNED_KEYS[key]}"


# CEL sees only declared properties with a type, so each owned key is declared to be refused by name.
_SCALAR = {"x-kubernetes-int-or-string": True}
_TYPES = {key: {"type": "boolean"} for key in ("parallel_drafting", ADAPTIVE_VERIFICATION)}
_SCHEMA = {
    "type": "object",
    "maxProperties": MAX_KEYS,
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        **{
            key: {**_TYPES.get(key, _SCALAR), "description": f"Refused: {remedy}."}
            for key, remedy in OWNED_KEYS.items()
        },
        SAMPLER: {"type": "string", "maxLength": 64, "description": " or ".join(LOSSLESS) + "."},
        OWN_VOCABULARY: {
            "type": "boolean",
            "description": "With method draft_model: the drafter has a vocabulary of its own. Tokens that "
            "both have are drafted, greedily.",
        },
    },
    "x-kubernetes-validations": [
        *(Rule(f"!has(self.{key})", _message(key)).to_wire() for key in OWNED_KEYS),
        Rule(f"!has(self.{SAMPLER}) || self.{SAMPLER} in {list(LOSSLESS)}", _LOSSY).to_wire(),
    ],
}

SpeculativeConfig = Annotated[
    dict[str, Scalar | list[Scalar]],
    Field(max_length=MAX_KEYS),
    BeforeValidator(only_scalars("spec.speculation.config")),
    AfterValidator(_check),
    WithJsonSchema(_SCHEMA),
]
