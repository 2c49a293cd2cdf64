"""Limit rules of the operator: K limits of requests that meet a condition.

The operator writes them into a file of the pod. So they apply without the operator, and a change needs no
restart. Runs on the engine core's thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider_engine.control.parsing import require_keys, whole_number
from outrider_protocol.control_api import Reason, Refusal
from outrider_protocol.cost_model import MAX_K
from outrider_protocol.environment import PUBLIC_KEY_FILE_VARIABLE
from outrider_protocol.request_limits import LIMITS_FILE, MAX_RULES, LimitCondition, LimitRule

logger = logging.getLogger("vllm.outrider")

OWN_REQUEST = "outrider-own-"
"""How the names of the plugin's own requests begin. They measure every K, so no rule limits them."""
_CONDITIONS = ("firstOutputTokens", "promptTokensBelow", "maxTokensBelow", "loraAdapter", "structuredOutput")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it arrives.

    extra_args: of its sampling parameters.
    max_tokens: the limit of its answer.
    """

    request_id: str
    extra_args: Mapping[str, object] | None
    prompt_tokens: int = 0
    max_tokens: int = 0
    lora_adapter: str | None = None
    structured_output: bool = False

    def meets(self, when: LimitCondition) -> bool:
        """Return whether the request meets the condition, apart from the tokens of its answer."""
        return (
            (when.prompt_tokens_below is None or self.prompt_tokens < when.prompt_tokens_below)
            and (when.max_tokens_below is None or self.max_tokens < when.max_tokens_below)
            and (when.lora_adapter is None or self.lora_adapter == when.lora_adapter)
            and (when.structured_output is None or self.structured_output == when.structured_output)
        )


def limits_file(environment: Mapping[str, str]) -> Path | None:
    """Where the pod has its limit rules, which is beside the public key."""
    key = environment.get(PUBLIC_KEY_FILE_VARIABLE)
    return Path(key).with_name(LIMITS_FILE) if key else None


def parse_rules(value: object) -> tuple[LimitRule, ...]:
    """Read the wire form.

    Raises:
        Refusal: `Reason.MALFORMED`; the message names the rule. One of a newer operator may have fields that
            this plugin does not know.
    """
    if not isinstance(value, list) or len(value) > MAX_RULES:
        raise Refusal(Reason.MALFORMED, f"limit rules must be a list of at most {MAX_RULES}")
    return tuple(_parse_rule(rule, f"rule {index}") for index, rule in enumerate(value))


class LimitRules:
    """The limit rules of one engine core, read again when their file changes.

    file: None for an engine without rules.
    """

    def __init__(self, file: Path | None) -> None:
        self.requests: dict[str, int] = {}
        """Requests that met each rule, by its name."""
        self.problem: str | None = None
        """Why the file cannot be used; the rules before apply."""
        self._file = file
        self._seen: tuple[int, ...] = ()
        self._rules: tuple[LimitRule, ...] = ()

    def met_by(self, request: Arrival) -> Sequence[LimitRule]:
        """The rules that a request meets as it arrives. Counts it."""
        if request.request_id.startswith(OWN_REQUEST):
            return ()
        self.look()
        met = [rule for rule in self._rules if request.meets(rule.when)]
        for rule in met:
            self.requests[rule.name] += 1
        return met

    def look(self) -> None:
        """Read the file if it changed. A look without a change takes microseconds."""
        if self._file is None:
            return
        try:
            found = self._file.stat()
            # The kubelet replaces the file, and never writes into it.
            seen: tuple[int, ...] = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            seen = ()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._rules, self.problem = self._read(self._file) if seen else (), None
        except (OSError, Refusal) as error:
            self.problem = f"the limit rules cannot be used, the ones before apply: {error}"
            logger.error("outrider: %s", self.problem)
        self.requests = {rule.name: self.requests.get(rule.name, 0) for rule in self._rules}

    @staticmethod
    def _read(file: Path) -> tuple[LimitRule, ...]:
        try:
            return parse_rules(json.loads(file.read_bytes()))
        except (ValueError, RecursionError) as error:
            raise Refusal(Reason.MALFORMED, f"{file} is not JSON") from error


def _parse_rule(value: object, name: str) -> LimitRule:
    rule = require_keys(value, name, "name", "maxK", "when")
    when = require_keys(rule["when"], f"{name}.when", optional=_CONDITIONS)
    max_k = whole_number(rule["maxK"], f"{name}.maxK")
    adapter, structured = when.get("loraAdapter"), when.get("structuredOutput")
    if (
        not isinstance(rule["name"], str)
        or max_k > MAX_K
        or not isinstance(adapter, str | None)
        or not isinstance(structured, bool | None)
    ):
        raise Refusal(Reason.MALFORMED, f"{name} has a value of another kind than its field")
    first, prompt, answer = (
        None if when.get(field) is None else whole_number(when[field], f"{name}.when.{field}", at_least=1)
        for field in _CONDITIONS[:3]
    )
    return LimitRule(rule["name"], max_k, LimitCondition(first, prompt, answer, adapter, structured))
