"""What SGLang and the plugin have counted, and the text of an answer."""

from __future__ import annotations

from tests.contract.engine import Engine
from tests.contract.measuring import Samples, scrape, wait_until

GENERATED, EMITTED = "sglang:generation_tokens_total", "outrider:emitted_tokens_total"
PROMPT = "def main(argv):\n    "


def counted(engine: Engine, before: Samples, tokens: int) -> Samples:
    """What was counted since ``before``, once both have counted so many generated tokens."""
    latest = [scrape(engine) - before]

    def arrived() -> bool:
        latest.append(scrape(engine) - before)
        return min(latest[-1].total(GENERATED), latest[-1].total(EMITTED)) >= tokens

    wait_until(arrived, f"{tokens} tokens were not counted: {latest[-1].total(EMITTED)}")
    return latest[-1]


def ks(found: Samples, *, batch: str) -> set[str]:
    """The K of all rounds of these batch sizes. The round after a change is ``mixed``, and there is one."""
    steps = found.by("outrider:steps_total", "k", batch=batch)
    assert steps.pop("mixed", 0) <= 1
    return set(steps)


def text_of(answer: dict[str, object]) -> str:
    match answer:
        case {"choices": [{"text": str(text)}]}:
            return text
    raise AssertionError(f"no completion: {answer}")
