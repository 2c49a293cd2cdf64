"""A tiny layer of multi-token prediction, to be a part of the target's own checkpoint (`mimo`).

Source: vLLM 0.32.0, `model_executor/models/mimo_mtp.py`, for names, the order of the norms, and that the
first token has no embedding. Learnt as an EAGLE-3 head learns, so that it can draft several tokens in a row.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from examples.models.drafting import DraftHead, DraftingAttention, KeysAndValues


class MtpLayer(nn.Module):
    """A decoder layer behind a projection of the next token and the hidden state before it."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.token_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.hidden_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.input_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.input_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.self_attn = DraftingAttention(config, hidden)
        self.post_attention_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.mlp = LlamaMLP(config)
        self.final_layernorm = LlamaRMSNorm(hidden, config.rms_norm_eps)
        self.rotary = LlamaRotaryEmbedding(config)

    def forward(
        self, embedded: torch.Tensor, features: torch.Tensor, earlier: KeysAndValues
    ) -> tuple[torch.Tensor, KeysAndValues]:
        """The next features at each position, and `earlier` with this pass's keys and values."""
        positions = torch.arange(embedded.shape[1])[None, :, None] + len(earlier)
        token = self.token_layernorm(torch.where(positions == 0, 0.0, embedded))
        read = self.input_proj(torch.cat([self.hidden_layernorm(features), token], dim=-1))
        mixed, passes = self.self_attn(self.input_layernorm(read), earlier, self.rotary)
        residual = read + mixed
        return self.final_layernorm(residual + self.mlp(self.post_attention_layernorm(residual))), passes


class MtpHead(DraftHead):
    """The layer, with the target whose last hidden state, embedding and output weights it uses."""

    def __init__(self, config: LlamaConfig, target: LlamaForCausalLM) -> None:
        super().__init__(target)
        self.layers = nn.ModuleList([MtpLayer(config)])

    def features(self, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The hidden state behind the last layer, before its norm: what MiMo hands on."""
        seen: list[torch.Tensor] = []
        hook = self.target.model.norm.register_forward_pre_hook(lambda _, read: seen.append(read[0]))
        with torch.no_grad():
            logits = self.target(text).logits
        hook.remove()
        return seen[0], logits

    def step(
        self, embedded: torch.Tensor, features: torch.Tensor, earlier: KeysAndValues
    ) -> tuple[torch.Tensor, KeysAndValues]:
        """See `DraftHead`."""
        found: tuple[torch.Tensor, KeysAndValues] = self.layers[0](embedded, features, earlier)
        return found

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """See `DraftHead`."""
        return self.target.lm_head(features)

    def save_pretrained(self, folder: Path) -> None:
        """Write the layer's weights; embedding and output stay the target's."""
        folder.mkdir(parents=True, exist_ok=True)
        kept = self.layers[0].state_dict().items()
        tensors = {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in kept}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
