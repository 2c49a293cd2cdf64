"""Fields of the config.json of current models whose layers are of several kinds; by `models.KNOWN_MODELS`.

Read in NVIDIA's aiconfigurator (`model_configs/`), Hugging Face's transformers and the model cards. Only the
fields that say what the layers are.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

Fields = Mapping[str, JsonValue]

_BLOCKS_OF_FP8: Fields = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
_TOWER: Fields = {
    "vision_config": {"num_hidden_layers": 27, "hidden_size": 1152, "intermediate_size": 4304},
}
_GATED_DELTA_NET: Fields = {
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
_LATENT: Fields = {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def _text(kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
    return {"model_type": kind, **fields}


def _gpt_oss(layers: int, experts: int) -> Fields:
    return {
        **_text("gpt_oss", num_hidden_layers=layers, num_local_experts=experts),
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_experts_per_tok": 4,
        "vocab_size": 201088,
        "sliding_window": 128,
        "quantization_config": {"quant_method": "mxfp4"},
    }


def _deepseek(kind: str, heads: int, experts: int, vocabulary: int, dense: int) -> Fields:
    return {
        **_text(kind, num_attention_heads=heads, n_routed_experts=experts, vocab_size=vocabulary),
        **_LATENT,
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_key_value_heads": heads,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": dense,
        "moe_layer_freq": 1,
    }


GPT_OSS_120B = _gpt_oss(36, 128)
GPT_OSS_20B = _gpt_oss(24, 32)

DEEPSEEK_V3: Fields = {**_deepseek("deepseek_v3", 128, 256, 129280, 3), **_BLOCKS_OF_FP8}
DEEPSEEK_V3_2: Fields = {
    **_deepseek("deepseek_v32", 128, 256, 129280, 3),
    **_BLOCKS_OF_FP8,
    "index_head_dim": 128,
    "index_n_heads": 64,
}
KIMI_K2: Fields = {**_deepseek("kimi_k2", 64, 384, 163840, 1), **_BLOCKS_OF_FP8}
KIMI_K2_5: Fields = {
    "text_config": {**_deepseek("kimi_k2", 64, 384, 163840, 1)},
    **_TOWER,
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}
        },
        "ignore": [
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
        ],
    },
}

GLM_4_7: Fields = {
    **_text("glm4_moe", num_hidden_layers=92, hidden_size=5120, intermediate_size=12288),
    "moe_intermediate_size": 1536,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "n_routed_experts": 160,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "vocab_size": 151552,
}
GLM_4_5_AIR: Fields = {
    **GLM_4_7,
    "num_hidden_layers": 46,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 128,
    "first_k_dense_replace": 1,
}
GLM_5: Fields = {
    **_text("glm_moe_dsa", num_hidden_layers=78, hidden_size=6144, intermediate_size=12288),
    **_LATENT,
    "q_lora_rank": 2048,
    "qk_nope_head_dim": 192,
    "v_head_dim": 256,
    "moe_intermediate_size": 2048,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "index_head_dim": 128,
    "index_n_heads": 32,
    "vocab_size": 154880,
}

MINIMAX_M2: Fields = {
    **_text("minimax_m2", num_hidden_layers=62, hidden_size=3072, intermediate_size=1536),
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "shared_intermediate_size": 0,
    "vocab_size": 200064,
    **_BLOCKS_OF_FP8,
}


def _gemma_3(layers: int, hidden: int, heads: int, kv_heads: int, size: int, wide: int) -> Fields:
    return {
        "text_config": {
            **_text("gemma3_text", num_hidden_layers=layers, hidden_size=hidden, intermediate_size=wide),
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": size,
            "sliding_window": 1024,
            "sliding_window_pattern": 6,
            "vocab_size": 262208,
        },
        **_TOWER,
    }


GEMMA_3_27B = _gemma_3(62, 5376, 32, 16, 128, 21504)
GEMMA_3_12B = _gemma_3(48, 3840, 16, 8, 256, 15360)
GEMMA_3_4B = _gemma_3(34, 2560, 8, 4, 256, 10240)


def _gemma_4(
    layers: int, hidden: int, wide: int, heads: int, kv_heads: int, full: int
) -> dict[str, JsonValue]:
    return {
        **_text("gemma4_text", num_hidden_layers=layers, hidden_size=hidden, intermediate_size=wide),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": full,
        "attention_k_eq_v": True,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
        "vocab_size": 262144,
        "tie_word_embeddings": True,
    }


GEMMA_4_31B: Fields = {
    "text_config": {**_gemma_4(60, 5376, 21504, 32, 16, 4), "enable_moe_block": False},
    **_TOWER,
}
GEMMA_4_26B: Fields = {
    "text_config": {
        **_gemma_4(30, 2816, 2112, 16, 8, 2),
        "enable_moe_block": True,
        "num_experts": 128,
        "top_k_experts": 8,
        "moe_intermediate_size": 704,
    },
    **_TOWER,
}


def _qwen_3_5(
    layers: int, hidden: int, heads: int, kv_heads: int, values: int, **mlp: JsonValue
) -> dict[str, JsonValue]:
    return {
        "text_config": {
            **_text("qwen3_5_moe_text" if "num_experts" in mlp else "qwen3_5_text", **mlp),
            **_GATED_DELTA_NET,
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": 256,
            "linear_num_value_heads": values,
            "mamba_ssm_dtype": "float32",
            "vocab_size": 248320,
            "tie_word_embeddings": False,
        },
        **_TOWER,
    }


def _experts(number: int, chosen: int, wide: int) -> dict[str, JsonValue]:
    return {
        "num_experts": number,
        "num_experts_per_tok": chosen,
        "moe_intermediate_size": wide,
        "shared_expert_intermediate_size": wide,
    }


QWEN_3_5_27B = _qwen_3_5(64, 5120, 24, 4, 48, intermediate_size=17408)
QWEN_3_5_35B = _qwen_3_5(40, 2048, 16, 2, 32, **_experts(256, 8, 512))
QWEN_3_5_122B = _qwen_3_5(48, 3072, 32, 2, 64, **_experts(256, 8, 1024))
QWEN_3_5_397B = _qwen_3_5(60, 4096, 32, 2, 64, **_experts(512, 10, 1024))
QWEN_3_NEXT: Fields = {
    **_text("qwen3_next", **_experts(512, 10, 512)),
    **_GATED_DELTA_NET,
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_value_heads": 32,
    "vocab_size": 151936,
}

LLAMA_4_MAVERICK: Fields = {
    **_text("llama4_text", num_hidden_layers=48, hidden_size=5120, intermediate_size=8192),
    "intermediate_size_mlp": 16384,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attention_chunk_size": 8192,
    "interleave_moe_layer_step": 2,
    "num_local_experts": 128,
    "num_experts_per_tok": 1,
    "vocab_size": 202048,
}
LLAMA_4_SCOUT: Fields = {**LLAMA_4_MAVERICK, "interleave_moe_layer_step": 1, "num_local_experts": 16}
