"""What heads that continue a target's own hidden states have in common: how they read, draft and learn.

Source: Li et al., "EAGLE-3" (arXiv 2503.01840). A head is trained on its own output in the place of the
target's features, because inference has the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

DRAFTED = 3
"""Tokens in a row that a head is trained to draft."""
DECAY = 0.8
"""Weight of the loss of each drafted token, by that of the one before."""

KeysAndValues = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each pass so far; each pass drafts one more token at a position."""


class DraftingAttention(nn.ModuleDict):
    """Attention of a head over the target's text and what each position drafted itself."""

    def __init__(self, config: LlamaConfig, inputs: int) -> None:
        hidden = config.hidden_size
        super().__init__(
            {f"{name}_proj": nn.Linear(inputs, hidden, bias=False) for name in "qkv"}
            | {"o_proj": nn.Linear(hidden, hidden, bias=False)}
        )
        self.heads = config.num_attention_heads

    def forward(
        self, read: torch.Tensor, earlier: KeysAndValues, rotary: LlamaRotaryEmbedding
    ) -> tuple[torch.Tensor, KeysAndValues]:
        """What each position takes from the others, and `earlier` with this pass's keys and values."""
        q, k, v = (self._split(self[f"{name}_proj"](read)) for name in "qkv")
        positions = torch.arange(read.shape[1])[None] + len(earlier)
        q, k = apply_rotary_pos_emb(q, k, *rotary(read, positions))
        passes = [*earlier, (k, v)]
        return self["o_proj"](attention(q, passes).transpose(1, 2).flatten(2)), passes

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def attention(q: torch.Tensor, passes: KeysAndValues) -> torch.Tensor:
    """Each position sees the first pass up to itself, and of later passes only what it drafted itself."""
    (keys, values), *own = passes
    length = q.shape[2]
    scores = q @ keys.transpose(-1, -2)
    scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
    drafted = [(q * k).sum(-1, keepdim=True) for k, _ in own]
    chances = (torch.cat([scores, *drafted], dim=-1) * q.shape[-1] ** -0.5).softmax(-1)
    mixed = chances[..., :length] @ values
    for index, (_, v) in enumerate(own):
        mixed = mixed + chances[..., length + index, None] * v
    return mixed


class DraftHead(nn.Module, ABC):
    """A head, with the target whose hidden states it reads and whose embedding it shares."""

    def __init__(self, target: LlamaForCausalLM) -> None:
        super().__init__()
        self._target = (target,)  # in a tuple, so that its weights are not the head's

    @property
    def target(self) -> LlamaForCausalLM:
        """Whose tokens it drafts."""
        (target,) = self._target
        return target

    @abstractmethod
    def features(self, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the head reads of the target at each token, and the target's logits."""

    @abstractmethod
    def step(
        self, embedded: torch.Tensor, features: torch.Tensor, earlier: KeysAndValues
    ) -> tuple[torch.Tensor, KeysAndValues]:
        """The next features, and the passes with this one."""

    @abstractmethod
    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """Return logits of the token that is drafted from these features."""

    def drafts(self, text: torch.Tensor, drafted: int = DRAFTED) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Logits of each token drafted in a row, and those of the target [batch, tokens, vocabulary].

        The i-th logits at position t stand for the same token as the target's at t + 1 + i. Each token is
        drafted after the text's own, as if all those before had been accepted.
        """
        with torch.no_grad():
            embedded = self.target.model.embed_tokens(text)
        roots = text.shape[1] - drafted
        features, wanted = self.features(text)
        features = features[:, :roots]
        logits, passes = [], KeysAndValues()
        for index in range(drafted):
            read = embedded[:, 1 + index : 1 + index + roots]
            features, passes = self.step(read, features, passes)
            logits.append(self.logits(features))
        return logits, wanted

    def loss(self, text: torch.Tensor) -> torch.Tensor:
        """Nats per token between the head's and the target's distributions, over all drafted tokens."""
        logits, wanted = self.drafts(text)
        wanted = wanted.softmax(-1)
        weights = [DECAY**index for index in range(len(logits))]
        losses = [
            functional.cross_entropy(each.flatten(0, 1), wanted[:, i : i + each.shape[1]].flatten(0, 1))
            for i, each in enumerate(logits, start=1)
        ]
        return sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
