"""How often the drafter guesses the target, on text that neither has seen.

    python -m examples.models.evaluate --weights examples/models/weights

Lets the target continue held-out prompts, then asks the drafter for each next token. Printed
per temperature: the expected acceptance of one drafted token under speculative sampling,
the sum over tokens of min(p, q) (arXiv 2211.17192, corollary 3.6).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from examples.models.text import Document, code_documents, prose_documents

PROMPTS = 24
PROMPT_BYTES = 100
CONTINUATION_TOKENS = 192


def main() -> None:
    """Print acceptance and one sample per kind of text and temperature."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    weights: Path = parser.parse_args().weights
    torch.set_num_threads(2)
    torch.manual_seed(0)
    target = LlamaForCausalLM.from_pretrained(weights / "target", dtype=torch.float32).eval()
    drafter = LlamaForCausalLM.from_pretrained(weights / "drafter", dtype=torch.float32).eval()
    for kind, documents in (
        ("code", code_documents(held_out=True)),
        ("prose", prose_documents(held_out=True)),
    ):
        prompts = _prompts(documents)
        for temperature in (0.0, 0.8):
            text = continued(target, prompts, temperature)
            rate = acceptance(target, drafter, text, temperature)
            print(f"{kind}  temperature {temperature}  acceptance {rate:.3f}")
            print("   " + repr(bytes(text[0, PROMPT_BYTES:].tolist()).decode(errors="replace")))


def _prompts(documents: Iterable[Document]) -> torch.Tensor:
    chooser = random.Random(1)
    texts = [document.text.encode() for document in documents]
    texts = [text for text in texts if len(text) > 2 * PROMPT_BYTES]
    prompts = []
    for _ in range(PROMPTS):
        text = chooser.choice(texts)
        start = chooser.randrange(len(text) - PROMPT_BYTES)
        prompts.append(list(text[start : start + PROMPT_BYTES]))
    return torch.tensor(prompts)


@torch.no_grad()
def continued(target: LlamaForCausalLM, prompts: torch.Tensor, temperature: float) -> torch.Tensor:
    """The prompts with CONTINUATION_TOKENS bytes of the target's own."""
    text, past, fed = prompts, None, prompts
    for _ in range(CONTINUATION_TOKENS):
        output = target(fed, past_key_values=past, use_cache=True)
        past = output.past_key_values
        logits = output.logits[:, -1, :256]
        if temperature == 0:
            fed = logits.argmax(-1, keepdim=True)
        else:
            fed = torch.multinomial((logits / temperature).softmax(-1), 1)
        text = torch.cat([text, fed], dim=1)
    return text


@torch.no_grad()
def acceptance(
    target: LlamaForCausalLM, drafter: LlamaForCausalLM, text: torch.Tensor, temperature: float
) -> float:
    """Mean over the continued positions of the chance that one drafted token is kept."""
    positions = slice(PROMPT_BYTES - 1, -1)
    p = target(text).logits[:, positions]
    q = drafter(text).logits[:, positions]
    if temperature == 0:
        return float((p.argmax(-1) == q.argmax(-1)).float().mean())
    p, q = (p / temperature).softmax(-1), (q / temperature).softmax(-1)
    return float(torch.minimum(p, q).sum(-1).mean())


if __name__ == "__main__":
    main()
