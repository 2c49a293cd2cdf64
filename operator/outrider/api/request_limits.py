"""``requestLimits``: K limits of the requests that meet a condition."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from outrider.api.base import ApiModel, Rule, rule
from outrider.api.drafting import DraftLength
from outrider.api.quantity import DnsLabel
from outrider_protocol.request_limits import MAX_RULES, LimitCondition, LimitRule

MAX_TOKENS = 16_777_216
"""More tokens than any model's context."""

_Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]


class RequestCondition(ApiModel):
    """Which requests a limit is for. A request must meet all of it."""

    first_output_tokens: _Tokens | None = None
    """The limit ends when the answer has so many tokens. Example: 32."""
    prompt_tokens_below: _Tokens | None = None
    """Requests with fewer prompt tokens. Example: 200."""
    max_tokens_below: _Tokens | None = None
    """Requests whose answer cannot have so many tokens: their `max_tokens` is smaller. Example: 16."""
    lora_adapter: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Requests to this LoRA adapter, by the name that clients send as `model`."""
    structured_output: bool | None = None
    """True: requests with structured output, such as a JSON schema. False: the others."""

    @rule(
        "has(self.firstOutputTokens) || has(self.promptTokensBelow) || has(self.maxTokensBelow) || "
        "has(self.loraAdapter) || has(self.structuredOutput)",
        "requestLimits: when is empty, and would limit every request; name a condition, or limit K for all "
        "by candidates and schedule",
    )
    def _is_not_empty(self) -> bool:
        return bool(self.to_condition().to_wire())

    def to_condition(self) -> LimitCondition:
        """Return the condition in the engine plugin's form."""
        return LimitCondition(
            self.first_output_tokens,
            self.prompt_tokens_below,
            self.max_tokens_below,
            self.lora_adapter,
            self.structured_output,
        )


class RequestLimit(ApiModel):
    """The largest K of the requests that meet a condition."""

    name: DnsLabel
    """Name of the limit in metrics. Example: short-answers."""
    max_k: DraftLength
    """Maximum draft tokens per step for such a request. 0 turns speculation off for it."""
    when: RequestCondition
    """Which requests the limit is for."""

    def to_rule(self) -> LimitRule:
        """Return the limit in the engine plugin's form."""
        return LimitRule(self.name, self.max_k, self.when.to_condition())


_UNIQUE = Rule(
    "self.all(limit, self.exists_one(other, other.name == limit.name))",
    "every request limit needs a name of its own",
)


def _names_differ(limits: list[RequestLimit]) -> list[RequestLimit]:
    if len({limit.name for limit in limits}) < len(limits):
        raise ValueError(_UNIQUE.message)
    return limits


RequestLimits = Annotated[
    list[RequestLimit],
    Field(
        fail_fast=True,
        max_length=MAX_RULES,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-validations": [dict(_UNIQUE.to_wire())],
        },
    ),
    AfterValidator(_names_differ),
]
"""A request that meets several conditions has the smallest of their limits."""
