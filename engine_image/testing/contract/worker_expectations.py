"""What the plugin stands on in vLLM's workers: one line each, with the place that uses it."""

from __future__ import annotations

from engine_image.testing.contract.files import (
    ADAPTIVE,
    ARGUMENTS,
    ATTENTION,
    ATTENTION_LAYER,
    COMPILATION,
    CPU_KERNELS,
    CPU_PLATFORM,
    CPU_RUNNER,
    GPU_ATTENTION,
    INPUT_BATCH,
    LAYER_BASE,
    MODEL_LOADER,
    PARALLEL_STATE,
    PLATFORM,
    PROPOSER,
    RUNNER_OUTPUTS,
    SAMPLING_METADATA,
    SCHEDULER,
    SPEC_METADATA,
    TOP_K,
    V1_RUNNER,
    VLLM_CONFIG,
    WORKER,
)
from engine_image.testing.contract.forms import Defines, Expectation, Holds, Imports, Inherits, Says, of
from outrider_protocol.releases import ADAPTIVE_SINCE

_CALL_OF_A_DRAFTER = """self.drafter.propose(
    num_speculative_tokens=num_spec_tokens_to_schedule, target_token_ids=target_token_ids,
    target_positions=target_positions, target_hidden_states=target_hidden_states,
    next_token_ids=next_token_ids, token_indices_to_sample=token_indices_to_sample,
    sampling_metadata=sampling_metadata, common_attn_metadata=common_attn_metadata,
    mm_embed_inputs=mm_embed_inputs, num_rejected_tokens_gpu=num_rejected_tokens_gpu,
    slot_mappings=slot_mappings)"""
"""Everything by name."""

_STATES_OF_THE_TARGET = "getattr(self.get_model(), 'get_mtp_target_hidden_states', lambda: None)()"

_PLAIN_SAMPLING = """if spec_decode_metadata is None:
    return self.sampler(logits=logits, sampling_metadata=sampling_metadata)"""

_LOGITS_OF_A_STEP = """logits_indices = np.repeat(
    cu_num_scheduled_tokens - num_sampled_tokens, num_sampled_tokens)"""
"""Nothing else of the step is read but the tokens that were drafted."""

_DRAFTS_OF_SOME = "zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids)"
"""Requests without an entry get none."""

_CACHE_FIRST = """(not self.attn_backend.forward_includes_kv_cache_update
    and self.kv_sharing_target_layer_name is None and key is not None and value is not None)"""
"""When the KV cache is written before anything attends."""

_RESULT_IN_A_COPY = """torch.ops._C.expand_kernel_impl(
    _ensure_int64(output), _ensure_int64(input_val), _ensure_int64(cu_num_tokens),
    replace_from, replace_to)"""
"""The first argument is that which is written."""

_ADAPTIVE_SINCE = min(ADAPTIVE_SINCE.values())

OF_WORKERS: tuple[Expectation, ...] = (
    *of(
        "vllm_adapter/worker.py",
        Defines(WORKER, "WorkerBase.__init__", takes=("self", "vllm_config")),
        Defines(WORKER, "WorkerBase"),
    ),
    *of(
        "vllm_adapter/attention.py",
        Defines(ARGUMENTS, "AsyncEngineArgs"),
        Defines("vllm/usage/usage_lib.py", "UsageContext"),
        Holds("vllm/usage/usage_lib.py", "UsageContext", ("OPENAI_API_SERVER",)),
        Defines(VLLM_CONFIG, "set_current_vllm_config", takes=("vllm_config",)),
        Defines("vllm/utils/torch_utils.py", "set_default_torch_dtype", takes=("dtype",)),
        Defines(ARGUMENTS, "EngineArgs.create_engine_config", takes=("self", "usage_context")),
        Holds(VLLM_CONFIG, "VllmConfig", ("num_speculative_tokens", "parallel_config", "model_config")),
        Defines(
            PARALLEL_STATE,
            "init_distributed_environment",
            takes=("world_size", "rank", "distributed_init_method", "local_rank", "backend"),
        ),
        Defines(PARALLEL_STATE, "initialize_model_parallel", takes=("tensor_model_parallel_size",)),
        Defines(MODEL_LOADER, "initialize_model", takes=("vllm_config",)),
        Defines(LAYER_BASE, "AttentionLayerBase.get_attn_backend", takes=("self",)),
        Defines(LAYER_BASE, "AttentionLayerBase.get_kv_cache_spec", takes=("self", "vllm_config")),
        Defines(
            ATTENTION,
            "AttentionMetadataBuilder.get_cudagraph_support",
            takes=("cls", "vllm_config", "kv_cache_spec"),
        ),
        Holds(ATTENTION, "AttentionCGSupport", ("ALWAYS", "NEVER")),
        Holds(ATTENTION, "AttentionBackend", ("get_name", "get_builder_cls")),
        since=_ADAPTIVE_SINCE,
    ),
    *of(
        "vllm_adapter/attention.py",
        Holds(ATTENTION, "AttentionBackend", ("supports_device_cpu_query_lens_mismatch",)),
        Defines(ADAPTIVE, "maybe_create_adaptive_verification_manager"),
        since=_ADAPTIVE_SINCE,
    ),
    *of(
        "vllm_adapter/attention.py",
        Defines(GPU_ATTENTION, "get_varlen_cudagraph_unsupported_backend"),
        Defines(
            ATTENTION,
            "AttentionMetadataBuilder.get_varlen_cudagraph_max_query_len",
            takes=("cls", "vllm_config", "kv_cache_spec"),
        ),
        since=(0, 31),
    ),
    *of(
        "vllm_adapter/drafter_fault.py",
        Defines(RUNNER_OUTPUTS, "AsyncModelRunnerOutput.get_output", takes=("self",)),
    ),
    *of(
        "vllm_adapter/drafter.py",
        Defines(
            V1_RUNNER,
            "GPUModelRunner.propose_draft_token_ids",
            takes=(
                *("self", "scheduler_output", "sampled_token_ids", "sampling_metadata", "hidden_states"),
                *("sample_hidden_states", "aux_hidden_states", "spec_decode_metadata"),
                *("common_attn_metadata", "slot_mappings"),
            ),
        ),
        Holds(V1_RUNNER, "GPUModelRunner", ("drafter", "input_batch", "use_async_scheduling")),
        Holds(V1_RUNNER, "GPUModelRunner", ("use_aux_hidden_state_outputs", "get_model")),
        Defines(V1_RUNNER, "GPUModelRunner.sample_tokens", takes=("self", "grammar_output")),
        Inherits(
            CPU_RUNNER, "CPUModelRunner", "GPUModelRunner", ("propose_draft_token_ids", "sample_tokens")
        ),
        Holds(INPUT_BATCH, "InputBatch", ("req_id_to_index",)),
        Says(SCHEDULER, "Scheduler.update_draft_token_ids", _DRAFTS_OF_SOME),
        Says(V1_RUNNER, "GPUModelRunner.propose_draft_token_ids", _CALL_OF_A_DRAFTER),
        Says(V1_RUNNER, "GPUModelRunner.propose_draft_token_ids", _STATES_OF_THE_TARGET),
        Defines(V1_RUNNER, "GPUModelRunner"),
        Defines(PROPOSER, "SpecDecodeBaseProposer"),
        Defines(
            PROPOSER,
            "SpecDecodeBaseProposer.propose",
            takes=(
                *("self", "num_speculative_tokens", "target_token_ids", "target_positions"),
                *("target_hidden_states", "next_token_ids", "token_indices_to_sample"),
                *("common_attn_metadata", "sampling_metadata"),
            ),
        ),
        Says(PROPOSER, "SpecDecodeBaseProposer.propose", "self.num_speculative_tokens == 0"),
        Holds(PROPOSER, "SpecDecodeBaseProposer", ("num_speculative_tokens", "_last_draft_probs")),
        Holds(PROPOSER, "SpecDecodeBaseProposer", ("pass_hidden_states_to_model",)),
        Inherits("vllm/v1/spec_decode/eagle.py", "EagleProposer", "SpecDecodeBaseProposer", ("propose",)),
        Inherits(
            "vllm/v1/spec_decode/draft_model.py",
            "DraftModelProposer",
            "SpecDecodeBaseProposer",
            ("propose",),
        ),
        Holds(ATTENTION, "CommonAttentionMetadata", ("num_actual_tokens", "slot_mapping")),
        Defines(ATTENTION, "CommonAttentionMetadata.batch_size", takes=("self",)),
    ),
    *of(
        "vllm_adapter/backfill_inputs.py",
        Holds(PROPOSER, "SpecDecodeBaseProposer", ("block_size",)),
        Says(
            PROPOSER,
            "SpecDecodeBaseProposer.set_inputs_first_pass",
            "self.hidden_states[:num_tokens] = target_hidden_states",
        ),
        Holds(
            ATTENTION,
            "CommonAttentionMetadata",
            (
                *("query_start_loc", "query_start_loc_cpu", "seq_lens", "seq_lens_cpu_upper_bound"),
                *("num_reqs", "max_query_len", "max_seq_len", "block_table_tensor"),
            ),
        ),
    ),
    *of(
        "vllm_adapter/kv_only_pass.py",
        Holds(PROPOSER, "SpecDecodeBaseProposer", ("_draft_attn_layer_names", "vllm_config")),
        Holds(COMPILATION, "CompilationConfig", ("static_forward_context",)),
        Holds(ATTENTION, "AttentionBackend", ("forward_includes_kv_cache_update",)),
        Holds(ATTENTION_LAYER, "Attention", ("attn_backend", "impl")),
        Says(ATTENTION_LAYER, "unified_attention_with_output", "self.impl.forward"),
        Says(ATTENTION_LAYER, "Attention.forward", _CACHE_FIRST),
    ),
    *of(
        "vllm_adapter/sampler.py",
        Defines(V1_RUNNER, "GPUModelRunner._sample", takes=("self", "logits", "spec_decode_metadata")),
        Says(V1_RUNNER, "GPUModelRunner._sample", _PLAIN_SAMPLING),
        Defines(
            V1_RUNNER,
            "GPUModelRunner._calc_spec_decode_metadata",
            takes=("self", "num_draft_tokens", "cu_num_scheduled_tokens"),
        ),
        Says(V1_RUNNER, "GPUModelRunner._calc_spec_decode_metadata", _LOGITS_OF_A_STEP),
        Inherits(CPU_RUNNER, "CPUModelRunner", "GPUModelRunner", ("_sample", "_calc_spec_decode_metadata")),
        Holds(SPEC_METADATA, "SpecDecodeMetadata", ("num_draft_tokens",)),
        Holds(INPUT_BATCH, "InputBatch", ("sampling_metadata",)),
        Holds(SAMPLING_METADATA, "SamplingMetadata", ("thinking_budget_state_holder",)),
    ),
    *of(
        "vllm_adapter/cpu_sampling.py",
        Imports("vllm/platforms/__init__.py", "current_platform"),
        Defines(PLATFORM, "Platform.is_cpu", takes=("self",)),
        Defines(
            CPU_KERNELS,
            "_expand_kernel_impl",
            takes=("output", "input_val", "cu_num_tokens", "replace_from", "replace_to", "MAX_NUM_TOKENS"),
        ),
        Defines(TOP_K, "apply_top_k_only", takes=("logits", "k")),
        Says(TOP_K, "apply_top_k_top_p_pytorch", "return apply_top_k_only(logits, k)"),
        # The defects. A release that does not say so may need no mend.
        Says(CPU_KERNELS, "_expand_kernel_impl", _RESULT_IN_A_COPY),
        Says(TOP_K, "apply_top_k_only", "max_top_k = k.max()"),
    ),
    *of(
        "vllm_adapter/cpu_sampling.py",
        Imports(CPU_KERNELS, "expand_kernel"),
        Holds(CPU_KERNELS, "_FuncWrapper", ("func",)),
        until=(0, 31),
    ),
    Expectation(
        Says(CPU_PLATFORM, "CpuPlatform.register_triton_kernel_overrides", "cpu_tl._expand_kernel_impl"),
        "vllm_adapter/cpu_sampling.py",
        since=(0, 31),
    ),
)
