"""A tiny EAGLE-3 head: one layer that continues the target's own hidden states.

Source: Li et al., "EAGLE-3" (arXiv 2503.01840): features of three depths of the target are joined. Names of
the weights and the order of the norms are those of vLLM 0.32.0, `model_executor/models/llama_eagle3.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from examples.models.drafting import DraftHead, DraftingAttention, KeysAndValues
from examples.models.shapes import FEATURE_LAYERS


class Eagle3Layer(nn.Module):
    """A decoder layer whose attention reads the token and the features side by side."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.input_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.self_attn = DraftingAttention(config, 2 * hidden)
        self.mlp = LlamaMLP(config)
        self.rotary = LlamaRotaryEmbedding(config)

    def forward(
        self, embedded: torch.Tensor, features: torch.Tensor, earlier: KeysAndValues
    ) -> tuple[torch.Tensor, KeysAndValues]:
        """The next features at each position, and `earlier` with this pass's keys and values.

        earlier: of the passes before, in which each position drafted one token less.
        """
        joined = torch.cat([self.input_layernorm(embedded), self.hidden_norm(features)], dim=-1)
        mixed, passes = self.self_attn(joined, earlier, self.rotary)
        residual = features + mixed
        return residual + self.mlp(self.post_attention_layernorm(residual)), passes


class Eagle3Head(DraftHead):
    """The head, with the target whose hidden states it reads and whose embedding it shares."""

    def __init__(self, config: LlamaConfig, target: LlamaForCausalLM) -> None:
        super().__init__(target)
        self.config = config
        self.fc = nn.Linear(len(FEATURE_LAYERS) * config.hidden_size, config.hidden_size, bias=False)
        self.layers = nn.ModuleList([Eagle3Layer(config)])
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight.data.copy_(target.lm_head.weight.data)

    def features(self, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states of three depths, joined."""
        with torch.no_grad():
            seen = self.target(text, output_hidden_states=True)
        return self.fc(torch.cat([seen.hidden_states[i] for i in FEATURE_LAYERS], -1)), seen.logits

    def step(
        self, embedded: torch.Tensor, features: torch.Tensor, earlier: KeysAndValues
    ) -> tuple[torch.Tensor, KeysAndValues]:
        """See `DraftHead`."""
        found: tuple[torch.Tensor, KeysAndValues] = self.layers[0](embedded, features, earlier)
        return found

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """See `DraftHead`."""
        return self.lm_head(self.norm(features))

    def save_pretrained(self, folder: Path) -> None:
        """Write weights and configuration as vLLM reads them; the embedding stays the target's."""
        folder.mkdir(parents=True, exist_ok=True)
        kept = ((name, tensor.detach().to(torch.bfloat16)) for name, tensor in self.state_dict().items())
        tensors = {name: tensor.contiguous() for name, tensor in kept}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self._description(), indent=2) + "\n")

    def _description(self) -> Mapping[str, object]:
        config: dict[str, object] = self.config.to_dict()
        return config | {
            "architectures": ["LlamaForCausalLMEagle3"],
            "dtype": "bfloat16",
            "draft_vocab_size": config["vocab_size"],
            # vLLM's V1 runner reads either, V2 only the first.
            "eagle_aux_hidden_state_layer_ids": list(FEATURE_LAYERS),
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(FEATURE_LAYERS)},
        }
