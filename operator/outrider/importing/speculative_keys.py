"""The keys of vLLM's speculative configuration. A contract test compares them with the installed vLLM."""

from __future__ import annotations

from outrider.importing.workload import names

KNOWN_KEYS = names(
    """
    attention_backend code_revision disable_eagle_block_drop disable_lookahead_block_hashes
    disable_padded_drafter_batch draft_lm_head_quantization draft_load_config draft_model_config
    draft_parallel_config draft_sample_method draft_tensor_parallel_size dspark_draft_topk
    enable_adaptive_verification enforce_eager fly_entropy_threshold fly_entropy_top_k fly_window_size
    index_share_for_mtp_iteration kv_cache_dtype max_model_len method model moe_backend num_speculative_tokens
    num_speculative_tokens_per_batch_size parallel_drafting prompt_lookup_max prompt_lookup_min quantization
    rejection_sample_method revision suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor
    suffix_decoding_max_tree_depth suffix_decoding_min_token_prob synthetic_acceptance_length
    synthetic_acceptance_rates target_model_config target_parallel_config tensor_parallel_size
    use_heterogeneous_vocab use_local_argmax_reduction xpress_topc
    """
)
"""Every key that some supported release has; an engine ends where it gets another one.

Source: ``SpeculativeConfig`` in ``vllm/config/speculative.py``. Four releases were read: 0.26, 0.29, 0.32
and 0.33. Each adds keys to those before, and removes none.
"""
