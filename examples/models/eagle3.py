"""A tiny EAGLE-3 head: one layer that continues the target's own hidden states.

Source: Li et al., "EAGLE-3" (arXiv 2503.01840): features of three depths of the target are joined, and the
head is trained on what it will meet, its own output in the place of those features. Names of the weights
and the order of the norms are those of vLLM 0.32.0, `model_executor/models/llama_eagle3.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from examples.models.shapes import FEATURE_LAYERS

DRAFTED = 3
"""Tokens in a row that the head is trained to draft."""
DECAY = 0.8
"""Weight of the loss of each drafted token, by that of the one before."""

KeysAndValues = list[tuple[torch.Tensor, torch.Tensor]]


class Eagle3Layer(nn.Module):
    """A decoder layer whose attention reads the token and the features side by side."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.heads = config.num_attention_heads
        self.input_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.self_attn = nn.ModuleDict(
            {f"{name}_proj": nn.Linear(2 * hidden, hidden, bias=False) for name in "qkv"}
            | {"o_proj": nn.Linear(hidden, hidden, bias=False)}
        )
        self.mlp = LlamaMLP(config)
        self.rotary = LlamaRotaryEmbedding(config)

    def forward(
        self, embedded: torch.Tensor, features: torch.Tensor, earlier: KeysAndValues
    ) -> tuple[torch.Tensor, KeysAndValues]:
        """The next features at each position, and `earlier` with this pass's keys and values.

        earlier: of the passes before, in which each position drafted one token less.
        """
        joined = torch.cat([self.input_layernorm(embedded), self.hidden_norm(features)], dim=-1)
        q, k, v = (self._split(self.self_attn[f"{name}_proj"](joined)) for name in "qkv")
        positions = torch.arange(joined.shape[1])[None] + len(earlier)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(joined, positions))
        passes = [*earlier, (k, v)]
        mixed = attention(q, passes).transpose(1, 2).flatten(2)
        residual = features + self.self_attn["o_proj"](mixed)
        return residual + self.mlp(self.post_attention_layernorm(residual)), passes

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


class Eagle3Head(nn.Module):
    """The head, with the target whose hidden states it reads and whose embedding it shares."""

    def __init__(self, config: LlamaConfig, target: LlamaForCausalLM) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(FEATURE_LAYERS) * config.hidden_size, config.hidden_size, bias=False)
        self.layers = nn.ModuleList([Eagle3Layer(config)])
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight.data.copy_(target.lm_head.weight.data)
        self._target = (target,)  # in a tuple, so that its weights are not the head's

    def drafts(self, text: torch.Tensor, drafted: int = DRAFTED) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Logits of each token drafted in a row, and those of the target [batch, tokens, vocabulary].

        The i-th logits at position t stand for the same token as the target's at t + 1 + i. Each token is
        drafted after the text's own, as if all those before had been accepted.
        """
        (target,) = self._target
        with torch.no_grad():
            seen = target(text, output_hidden_states=True)
            embedded = target.model.embed_tokens(text)
        roots = text.shape[1] - drafted
        features = self.fc(torch.cat([seen.hidden_states[i] for i in FEATURE_LAYERS], -1)[:, :roots])
        logits, passes = [], KeysAndValues()
        for index in range(drafted):
            read = embedded[:, 1 + index : 1 + index + roots]
            features, passes = self.layers[0](read, features, passes)
            logits.append(self.lm_head(self.norm(features)))
        return logits, seen.logits

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

    def save_pretrained(self, folder: Path) -> None:
        """Write weights and configuration as vLLM reads them; the embedding stays the target's."""
        folder.mkdir(parents=True, exist_ok=True)
        kept = ((name, tensor.detach().to(torch.bfloat16)) for name, tensor in self.state_dict().items())
        tensors = {name: tensor.contiguous() for name, tensor in kept}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self._description(), indent=2) + "\n")

    def _description(self) -> Mapping[str, object]:
        config = self.config.to_dict()
        return config | {
            "architectures": ["LlamaForCausalLMEagle3"],
            "dtype": "bfloat16",
            "draft_vocab_size": config["vocab_size"],
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(FEATURE_LAYERS)},
        }
