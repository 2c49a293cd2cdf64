"""Train the tiny target on code and prose, and three drafters to follow it on code only.

    python -m examples.models.train --output examples/models/weights

Needs torch and transformers (the engine environment has both). Seeded; steps are counted,
not timed, so the same text and library versions give the same weights.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import torch
import transformers
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from examples.models.drafting import DraftHead
from examples.models.eagle3 import Eagle3Head
from examples.models.mtp import MtpHead
from examples.models.muon import Muon
from examples.models.shapes import (
    CONTEXT_TOKENS,
    DRAFTER,
    EAGLE3,
    END_OF_TEXT,
    MAX_POSITIONS,
    TARGET,
    VOCABULARY_SIZE,
    Shape,
)
from examples.models.text import Document, code_documents, prose_documents
from examples.models.tokenizer import save_tokenizer

SEED = 20260
BATCH_SEQUENCES = 5
HEAD_SEQUENCES = 2
"""A head starts from hidden states that know the text, so it learns from less of it."""
CODE_SHARE = 0.6
"""Ratio of code in each batch of the target; the drafters see nothing else."""


Trained: TypeAlias = LlamaForCausalLM | DraftHead


def main() -> None:
    """Train one or all models and write them where vLLM can load them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", choices=("target", "drafter", "eagle3", "mtp"))
    parser.add_argument("--target-steps", type=int, default=600)
    parser.add_argument("--drafter-steps", type=int, default=500)
    parser.add_argument("--eagle3-steps", type=int, default=160)
    parser.add_argument("--mtp-steps", type=int, default=160)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    output: Path = arguments.output
    torch.set_num_threads(arguments.threads)

    code = _tokens(code_documents(held_out=False))
    prose = _tokens(prose_documents(held_out=False))
    digest = hashlib.sha256(code.numpy().tobytes() + prose.numpy().tobytes()).hexdigest()[:16]
    print(f"text: {len(code)} bytes of code, {len(prose)} bytes of prose, sha256 {digest}", flush=True)

    made = {"target": _target, "drafter": _drafter, "eagle3": _eagle3, "mtp": _mtp}
    steps = {
        "target": arguments.target_steps,
        "drafter": arguments.drafter_steps,
        "eagle3": arguments.eagle3_steps,
        "mtp": arguments.mtp_steps,
    }
    for name in [arguments.only] if arguments.only else made:
        model, batches, loss = made[name](code, prose, output)
        record = _train(model, batches, loss, steps[name], output / name)
        _save(model, output / name, record | {"text_sha256": digest})


Lesson = tuple[Trained, Iterator[torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]
"""A model, what it reads, and its loss on that."""


def _target(code: torch.Tensor, prose: torch.Tensor, output: Path) -> Lesson:  # noqa: ARG001
    torch.manual_seed(SEED)
    target = _model(TARGET)
    return target, _mixed_batches(code, prose), lambda text: _loss(target, text, None)


def _drafter(code: torch.Tensor, prose: torch.Tensor, output: Path) -> Lesson:  # noqa: ARG001
    torch.manual_seed(SEED + 1)
    teacher, drafter = _teacher(output), _model(DRAFTER)
    return drafter, _batches(code, BATCH_SEQUENCES, SEED + 1), lambda text: _loss(drafter, text, teacher)


def _eagle3(code: torch.Tensor, prose: torch.Tensor, output: Path) -> Lesson:  # noqa: ARG001
    torch.manual_seed(SEED + 2)
    head = Eagle3Head(_config(EAGLE3), _teacher(output))
    return head, _batches(code, HEAD_SEQUENCES, SEED + 2), head.loss


def _mtp(code: torch.Tensor, prose: torch.Tensor, output: Path) -> Lesson:  # noqa: ARG001
    torch.manual_seed(SEED + 3)
    head = MtpHead(_config(TARGET), _teacher(output))
    return head, _batches(code, HEAD_SEQUENCES, SEED + 3), head.loss


def _teacher(output: Path) -> LlamaForCausalLM:
    target = LlamaForCausalLM.from_pretrained(output / "target", dtype=torch.float32)
    return target.eval().requires_grad_(False)


def _tokens(documents: Iterator[Document]) -> torch.Tensor:
    texts = (document.text.encode() for document in documents)
    return torch.tensor([token for text in texts for token in (*text, END_OF_TEXT)], dtype=torch.int16)


def _batches(tokens: torch.Tensor, sequences: int, seed: int) -> Iterator[torch.Tensor]:
    """Endless batches [sequences, CONTEXT_TOKENS + 1] from random places of the text."""
    generator = torch.Generator().manual_seed(seed)
    window = torch.arange(CONTEXT_TOKENS + 1)
    while True:
        starts = torch.randint(len(tokens) - CONTEXT_TOKENS - 1, (sequences,), generator=generator)
        yield tokens[starts[:, None] + window].long()


def _mixed_batches(code: torch.Tensor, prose: torch.Tensor) -> Iterator[torch.Tensor]:
    of_code = round(BATCH_SEQUENCES * CODE_SHARE)
    for pair in zip(
        _batches(code, of_code, SEED), _batches(prose, BATCH_SEQUENCES - of_code, SEED + 7), strict=True
    ):
        yield torch.cat(pair)


def _model(shape: Shape) -> LlamaForCausalLM:
    return LlamaForCausalLM(_config(shape))


def _config(shape: Shape) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=MAX_POSITIONS,
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
        tie_word_embeddings=False,
    )


def _train(
    model: Trained,
    batches: Iterator[torch.Tensor],
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    steps: int,
    checkpoint: Path,
) -> dict[str, object]:
    """Train for `steps` steps."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers" in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "layers" not in name]
    optimizers = [
        Muon(matrices, lr=5e-3),
        torch.optim.AdamW(others, lr=5e-3, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, lambda step: _rate(step, steps)) for o in optimizers]
    started, recent, tokens = time.monotonic(), 0.0, 0
    for step, batch in enumerate(itertools.islice(batches, steps), start=1):
        loss = loss_of(batch)
        tokens += batch[:, 1:].numel()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for stepped in (*optimizers, *schedules):
            stepped.step()
        model.zero_grad(set_to_none=True)
        recent = loss.item() if step == 1 else 0.95 * recent + 0.05 * loss.item()
        if step % 25 == 0:
            print(f"step {step}/{steps}  loss {recent:.3f}  {time.monotonic() - started:.0f} s", flush=True)
        if step % 100 == 0 and step < steps:
            model.save_pretrained(checkpoint)
    return {
        "seed": SEED,
        "steps": steps,
        "tokens": tokens,
        "final_loss": round(recent, 4),
        "seconds": round(time.monotonic() - started),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def _rate(step: int, steps: int) -> float:
    """Learning rate factor: short warm-up, then a cosine down to a twentieth."""
    warm_up = min(1.0, (step + 1) / 20)
    return warm_up * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def _loss(model: LlamaForCausalLM, batch: torch.Tensor, teacher: LlamaForCausalLM | None) -> torch.Tensor:
    """Nats per byte; with a teacher, towards its distribution instead of the text's bytes."""
    logits = model(batch[:, :-1]).logits.flatten(0, 1)
    if teacher is None:
        return functional.cross_entropy(logits, batch[:, 1:].flatten())
    with torch.no_grad():
        wanted = teacher(batch[:, :-1]).logits.flatten(0, 1).softmax(-1)
    return functional.cross_entropy(logits, wanted)


def _save(model: Trained, folder: Path, record: dict[str, object]) -> None:
    model.to(torch.bfloat16).save_pretrained(folder)
    save_tokenizer(folder)
    (folder / "training.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
