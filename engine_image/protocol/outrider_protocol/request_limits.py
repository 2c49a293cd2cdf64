"""Limit rules: a K limit for the requests that meet a condition.

The operator writes them into the ConfigMap that engine pods mount, and the engine plugin reads them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LIMITS_FILE = "request-limits.json"
"""In the folder of the public key, so that pods need no other variable."""
MAX_RULES = 16


@dataclass(frozen=True, slots=True)
class LimitCondition:
    """Which requests a rule limits. None leaves a part open; a request has to meet all others.

    first_output_tokens: the rule ends once the answer has so many tokens.
    prompt_tokens_below, max_tokens_below: both are exclusive.
    structured_output: False for requests without.
    """

    first_output_tokens: int | None = None
    prompt_tokens_below: int | None = None
    max_tokens_below: int | None = None
    lora_adapter: str | None = None
    structured_output: bool | None = None

    def to_wire(self) -> dict[str, object]:
        """The field ``when`` of the rule."""
        wire: Mapping[str, object] = {
            "firstOutputTokens": self.first_output_tokens,
            "promptTokensBelow": self.prompt_tokens_below,
            "maxTokensBelow": self.max_tokens_below,
            "loraAdapter": self.lora_adapter,
            "structuredOutput": self.structured_output,
        }
        return {name: value for name, value in wire.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LimitRule:
    """The largest K of the requests that meet a condition; 0 means no speculation."""

    name: str
    max_k: int
    when: LimitCondition

    def to_wire(self) -> dict[str, object]:
        """One entry of the file, in the form of the spec."""
        return {"name": self.name, "maxK": self.max_k, "when": self.when.to_wire()}
