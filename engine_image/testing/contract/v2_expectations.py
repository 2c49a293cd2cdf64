"""What the plugin stands on in workers of vLLM's V2 runner: one line each, with the place that uses it.

Each is needed from the first version on whose V2 runner gives the K of a step to its drafter.
"""

from __future__ import annotations

from engine_image.testing.contract.files import (
    MODEL_CONFIG,
    PARALLEL,
    V2_ATTENTION,
    V2_BLOCK_TABLES,
    V2_BUFFERS,
    V2_CPU_RUNNER,
    V2_DRAFT_MODEL,
    V2_GRAPHS,
    V2_HEAD,
    V2_INPUT_BATCH,
    V2_REQUESTS,
    V2_RUNNER,
    V2_SPECULATOR,
)
from engine_image.testing.contract.forms import Defines, Expectation, Holds, Imports, Inherits, Says, of
from outrider_engine.vllm_adapter.support import V2_SKIP_SINCE

_PROPOSE = (
    *("self", "input_batch", "attn_metadata", "slot_mappings", "last_hidden_states", "aux_hidden_states"),
    *("num_sampled", "num_rejected", "last_sampled", "next_prefill_tokens", "temperature", "seeds"),
)

_CALL_OF_A_DRAFTER = """draft_tokens = self.speculator.propose(
    input_batch, attn_metadata, slot_mappings_by_layer, spec_hidden_states, aux_hidden_states,
    num_sampled, num_rejected, self.req_states.last_sampled_tokens, self.req_states.next_prefill_tokens,
    self.sampler.sampling_states.temperature.gpu, self.sampler.sampling_states.seeds.gpu,
    num_speculative_tokens=num_spec_tokens, dp_sync_state=dp_sync_state, mm_inputs=mm_inputs)"""
"""Once per step, after its results are in the state of the requests. K comes by name."""

_NO_DRAFTS = """if num_spec_tokens < self.num_speculative_steps:
    draft_tokens[:, num_spec_tokens:] = -1"""
"""Drafts beyond the K of the step do not count, whatever stands there."""

_STATES_OF_LAYERS = """if aux_hidden_states:
    assert self.method == 'eagle3'
    hidden_states = self.model.combine_hidden_states(torch.cat(aux_hidden_states, dim=-1))
else:
    hidden_states = last_hidden_states"""

_NEXT_TOKEN = "tl.store(draft_input_ids_ptr + query_start + block - 1, input_ids, mask=mask)"
"""The state of a position comes with the token after it."""

_ALL_GRAPHS_INSIDE = "self.prefill_cudagraph_manager.run_fullgraph(prefill_batch_desc)"
"""A step without ``propose`` replays no graph of the drafter."""

_PASS_OF_A_HEAD = (
    *("self", "num_tokens", "attn_metadata", "slot_mappings", "num_tokens_across_dp"),
    "cudagraph_runtime_mode",
)

OF_V2: tuple[Expectation, ...] = (
    *of(
        "vllm_adapter/engine_config.py",
        Holds(PARALLEL, "ParallelConfig", ("decode_context_parallel_size", "prefill_context_parallel_size")),
        Defines(MODEL_CONFIG, "ModelConfig.get_sliding_window", takes=("self",)),
    ),
    *of(
        "vllm_adapter/v2_drafter.py",
        Defines(V2_RUNNER, "GPUModelRunner.execute_model", takes=("self", "scheduler_output")),
        Holds(V2_RUNNER, "GPUModelRunner", ("speculator", "req_states")),
        Says(V2_RUNNER, "GPUModelRunner.sample_tokens", _CALL_OF_A_DRAFTER),
        Says(V2_RUNNER, "GPUModelRunner.sample_tokens", _NO_DRAFTS),
        Inherits(V2_CPU_RUNNER, "CPUModelRunner", "GPUModelRunner", ("execute_model", "sample_tokens")),
        Defines(V2_HEAD, "TargetDependentARSpeculator"),
        Defines(V2_HEAD, "TargetDependentARSpeculator.propose", takes=_PROPOSE),
        Says(V2_HEAD, "TargetDependentARSpeculator.propose", _ALL_GRAPHS_INSIDE),
        *(
            Inherits(
                f"vllm/v1/worker/gpu/spec_decode/{module}/speculator.py",
                name,
                "TargetDependentARSpeculator",
                ("propose",),
            )
            for module, name in (("eagle", "EagleSpeculator"), ("mtp", "MTPSpeculator"))
        ),
        Defines(V2_DRAFT_MODEL, "StandaloneARSpeculator"),
        Defines(V2_DRAFT_MODEL, "StandaloneARSpeculator.propose", takes=_PROPOSE),
        Says(
            V2_DRAFT_MODEL,
            "StandaloneARSpeculator._multi_step_decode",
            "range(1, self.num_speculative_steps)",
        ),
        Says(V2_DRAFT_MODEL, "StandaloneARSpeculator.propose", "self.num_speculative_steps == 1"),
        Holds(
            V2_SPECULATOR,
            "DraftModelSpeculator",
            ("draft_tokens", "draft_attn_layer_names", "num_speculative_steps"),
        ),
        Holds(V2_INPUT_BATCH, "InputBatch", ("num_reqs", "num_tokens")),
        since=V2_SKIP_SINCE,
    ),
    *of(
        "vllm_adapter/v2_backfill.py",
        Says(V2_HEAD, "TargetDependentARSpeculator.propose", _STATES_OF_LAYERS),
        Says(V2_HEAD, "_prepare_prefill_inputs_kernel", _NEXT_TOKEN),
        Defines(V2_HEAD, "TargetDependentARSpeculator._run_model", takes=_PASS_OF_A_HEAD),
        Defines(V2_HEAD, "TargetDependentARSpeculator.on_prefill_begin", takes=("self", "num_reqs")),
        Holds(V2_HEAD, "TargetDependentARSpeculator", ("hidden_states",)),
        Defines(
            V2_DRAFT_MODEL,
            "StandaloneARSpeculator._run_model",
            takes=(
                "self",
                "input_ids",
                "positions",
                "attn_metadata",
                "slot_mappings",
                "num_tokens_across_dp",
            ),
        ),
        Defines(V2_SPECULATOR, "DraftModelSpeculator._prepare_eplb_forward", takes=("self",)),
        Defines(
            V2_SPECULATOR,
            "DraftModelSpeculator._build_attn_metadata",
            takes=(
                *("self", "num_reqs", "batch_desc", "query_start_loc_np", "seq_lens_cpu_upper_bound", "step"),
                *("causal", "dcp_local_seq_lens", "slot_mappings"),
            ),
        ),
        Holds(
            V2_SPECULATOR,
            "DraftModelSpeculator",
            ("block_tables", "kv_cache_config", "input_buffers", "draft_max_seq_len", "vllm_config", "model"),
        ),
        Holds(V2_INPUT_BATCH, "InputBatch", ("req_ids", "idx_mapping", "query_start_loc", "seq_lens")),
        Holds(V2_INPUT_BATCH, "InputBuffers", ("input_ids", "positions", "query_start_loc", "seq_lens")),
        Holds(V2_REQUESTS, "RequestState", ("all_token_ids",)),
        Holds(V2_BUFFERS, "StagedWriteTensor", ("gpu",)),
        Holds(V2_BLOCK_TABLES, "BlockTables", ("block_tables", "input_block_tables", "num_kv_cache_groups")),
        Defines(
            V2_BLOCK_TABLES,
            "BlockTables.compute_slot_mappings",
            takes=("self", "idx_mapping", "query_start_loc", "positions", "num_tokens_padded", "out"),
        ),
        Defines(V2_ATTENTION, "build_slot_mappings_by_layer", takes=("slot_mappings", "kv_cache_config")),
        Imports(V2_SPECULATOR, "CUDAGraphMode"),
        Imports(V2_SPECULATOR, "BatchExecutionDescriptor"),
        Holds(V2_GRAPHS, "BatchExecutionDescriptor", ("cg_mode", "num_tokens", "num_reqs")),
        since=V2_SKIP_SINCE,
    ),
)
