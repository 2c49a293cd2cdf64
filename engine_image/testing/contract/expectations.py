"""Everything in vLLM that the project stands on: one line each, with the place that uses it."""

from __future__ import annotations

from engine_image.testing.contract.adaptive_expectations import OF_ADAPTIVE_VERIFICATION
from engine_image.testing.contract.files import (
    ARGUMENTS,
    ASYNC_LLM,
    ASYNC_SCHEDULER,
    CLIENT,
    COMPILATION,
    CORE,
    CPU_PLATFORM,
    DYNAMIC,
    ENDPOINT,
    ENGINE,
    ENVIRONMENT,
    EXECUTOR,
    HEALTH,
    KV_CACHE,
    KV_MANAGER,
    LAUNCHER,
    LAUNCHER_UNTIL_0_29,
    LOGGERS,
    MAMBA_HYBRID,
    MODEL_CONFIG,
    NGRAM,
    OUTPUTS,
    PARALLEL,
    PLATFORM,
    PLUGINS,
    PROPOSER,
    REGISTRY,
    REQUEST,
    RUNNER_OUTPUTS,
    SAMPLING,
    SCHEDULER,
    SCHEDULER_CONFIG,
    SCHEDULER_OUTPUT,
    SERVE,
    SPEC_METRICS,
    SPECULATIVE,
    STATS,
    V1_RUNNER,
    VLLM_CONFIG,
)
from engine_image.testing.contract.forms import (
    Defines,
    Expectation,
    Form,
    Holds,
    Ignores,
    Imports,
    Inherits,
    Names,
    Says,
    of,
)
from engine_image.testing.contract.v2_expectations import OF_V2
from engine_image.testing.contract.worker_expectations import OF_WORKERS
from outrider_protocol.releases import RECURRENT_STATES_RIGHT, TWIN_SINCE

_LIMITED_ROUTES = (
    ("vllm/entrypoints/openai/completion/protocol.py", "CompletionRequest"),
    ("vllm/entrypoints/openai/chat_completion/protocol.py", "ChatCompletionRequest"),
    ("vllm/entrypoints/openai/responses/protocol.py", "ResponsesRequest"),
)
"""Where ``vllm_xargs`` become extra arguments of the sampling parameters."""


_COUNTED_DRAFT = """self.make_spec_decoding_stats(
    spec_decoding_stats, num_draft_tokens=num_draft_tokens, num_accepted_tokens=num_accepted,
    num_invalid_spec_tokens=scheduler_output.num_invalid_spec_tokens, request_id=req_id)"""
"""By name, once for each draft that is counted."""


def _serving(launcher: str) -> tuple[Form, ...]:
    """At SIGTERM vLLM ends the engine client first and its HTTP server, by this name, last."""
    return (
        Says(launcher, "serve_http", "app.state.server = server"),
        Says(launcher, "serve_http", "partial(engine_client.shutdown, timeout=timeout)"),
    )


EXPECTATIONS: tuple[Expectation, ...] = (
    *of(
        "vllm_adapter/engine_core.py",
        Imports("vllm/__init__.py", "__version__"),
        Holds(CORE, "EngineCore", ("scheduler",)),
        Says(CORE, "EngineCoreProc._handle_client_request", "(method := getattr(self, method_name))"),
        Says(CORE, "EngineCoreProc.run_busy_loop", "self._process_input_queue()"),
        Says(CORE, "EngineCoreProc.run_busy_loop", "self._process_engine_step()"),
        Defines(SCHEDULER, "Scheduler.__init__", takes=("self", "vllm_config")),
        Defines(SCHEDULER, "Scheduler.schedule", takes=("self",)),
        Holds(SCHEDULER, "Scheduler", ("dynamic_sd_lookup", "vllm_config")),
        Says(SCHEDULER, "Scheduler.schedule", "self.dynamic_sd_lookup[len(num_scheduled_tokens)]"),
        Says(SCHEDULER, "Scheduler.__init__", "self.dynamic_sd_lookup: list[int] | None = None"),
        Defines(SCHEDULER, "Scheduler"),
        Inherits(
            ASYNC_SCHEDULER, "AsyncScheduler", "Scheduler", ("__init__", "schedule", "update_from_output")
        ),
        Defines(DYNAMIC, "build_dynamic_sd_schedule_lookup"),
        Holds(VLLM_CONFIG, "VllmConfig", ("speculative_config", "scheduler_config", "parallel_config")),
        Holds(VLLM_CONFIG, "VllmConfig", ("use_v2_model_runner", "additional_config", "compilation_config")),
        Holds(COMPILATION, "CompilationConfig", ("cudagraph_mode",)),
        Holds(SPECULATIVE, "SpeculativeConfig", ("method", "num_speculative_tokens", "parallel_drafting")),
        Holds(SCHEDULER_CONFIG, "SchedulerConfig", ("max_num_seqs",)),
        Holds(PARALLEL, "ParallelConfig", ("data_parallel_size", "pipeline_parallel_size")),
        Says(
            VLLM_CONFIG,
            "VllmConfig._maybe_disable_dynamic_sd_for_data_parallel",
            "speculative_config.num_speculative_tokens_per_batch_size = None",
        ),
        Defines(
            SCHEDULER,
            "Scheduler.update_from_output",
            takes=("self", "scheduler_output", "model_runner_output"),
        ),
        Holds(SCHEDULER, "Scheduler", ("log_stats", "has_unfinished_requests")),
        Defines(CORE, "EngineCore"),
        Defines(CORE, "EngineCore.post_step", takes=("self", "model_executed")),
        Says(CORE, "EngineCore.post_step", "draft_token_ids = self.model_executor.take_draft_token_ids()"),
        Says(SCHEDULER, "Scheduler.schedule", "request.spec_token_ids = []"),
        Says(CORE, "EngineCore.step", "self.scheduler.schedule(self._should_throttle_prefills())"),
        Says(CORE, "EngineCore.step", "self.scheduler.update_from_output(scheduler_output, model_output)"),
        Says(
            CORE,
            "EngineCore.step_with_batch_queue",
            "self.scheduler.schedule(self._should_throttle_prefills())",
        ),
        Holds(SCHEDULER_OUTPUT, "SchedulerOutput", ("num_scheduled_tokens", "total_num_scheduled_tokens")),
        Holds(SCHEDULER_OUTPUT, "SchedulerOutput", ("scheduled_new_reqs", "scheduled_cached_reqs")),
        Holds(SCHEDULER_OUTPUT, "SchedulerOutput", ("finished_req_ids", "num_spec_tokens_to_schedule")),
        Holds(SCHEDULER_OUTPUT, "SchedulerOutput", ("scheduled_spec_decode_tokens",)),
        Holds(SCHEDULER_OUTPUT, "NewRequestData", ("req_id", "num_computed_tokens")),
        Holds(SCHEDULER_OUTPUT, "CachedRequestData", ("req_ids", "num_computed_tokens", "num_output_tokens")),
    ),
    *of(
        "vllm_adapter/scheduler.py",
        Holds(ENGINE, "EngineCoreOutputs", ("outputs", "scheduler_stats")),
        Holds(ENGINE, "EngineCoreOutput", ("new_token_ids",)),
        Holds(STATS, "SchedulerStats", ("spec_decoding_stats",)),
        Holds(SPEC_METRICS, "SpecDecodingStats", ("num_draft_tokens_per_pos", "num_accepted_tokens_per_pos")),
    ),
    *of(
        "vllm_adapter/scheduler.py",
        Holds(SCHEDULER, "Scheduler", ("running",)),
        Holds(REQUEST, "Request", ("num_computed_tokens",)),
    ),
    Expectation(
        Holds(SPECULATIVE, "SpeculativeConfig", ("use_multi_module_mtp",)),
        "vllm_adapter/engine_core.py",
        (0, 27),
    ),
    *of(
        "control/lookup.py",
        Says(
            VLLM_CONFIG,
            "VllmConfig._maybe_override_dynamic_sd_cudagraph_mode",
            "speculative_config.uses_dynamic_speculative_decoding()",
        ),
        Ignores(V1_RUNNER, "uses_dynamic_speculative_decoding"),
        Ignores(V1_RUNNER, "num_speculative_tokens_per_batch_size"),
        Says(SCHEDULER, "Scheduler.schedule", "num_spec_tokens_to_schedule = self.num_spec_tokens"),
        Says(
            ASYNC_SCHEDULER,
            "AsyncScheduler._update_after_schedule",
            "[-1] * scheduler_output.num_spec_tokens_to_schedule",
        ),
    ),
    *of(
        "vllm_adapter/scheduler.py",
        Holds(SCHEDULER, "Scheduler", ("kv_cache_config", "kv_cache_manager", "requests")),
        Holds(VLLM_CONFIG, "VllmConfig", ("kv_transfer_config",)),
        Holds(KV_CACHE, "KVCacheConfig", ("kv_cache_groups",)),
        Holds(KV_CACHE, "KVCacheGroupSpec", ("kv_cache_spec",)),
        Holds(KV_CACHE, "KVCacheSpec", ("block_size",)),
        Holds(SCHEDULER_CONFIG, "SchedulerConfig", ("max_num_batched_tokens", "async_scheduling")),
        Holds(SPECULATIVE, "SpeculativeConfig", ("draft_model_config",)),
        Holds(MODEL_CONFIG, "ModelConfig", ("max_model_len", "is_multimodal_model")),
        Holds(MODEL_CONFIG, "ModelConfig", ("is_hybrid", "is_attention_free", "has_inner_state")),
        Holds(SCHEDULER_OUTPUT, "NewRequestData", ("block_ids",)),
        Holds(SCHEDULER_OUTPUT, "CachedRequestData", ("new_block_ids", "resumed_req_ids")),
        Holds(REQUEST, "Request", ("all_token_ids", "request_id")),
        Defines(KV_MANAGER, "KVCacheManager.get_block_ids", takes=("self", "request_id")),
        Defines(KV_MANAGER, "KVCacheManager.evict_blocks", takes=("self", "block_ids")),
        Defines(KV_MANAGER, "KVCacheManager.free", takes=("self", "request")),
    ),
    *of(
        "vllm_adapter/engine_cores.py",
        Holds(ASYNC_LLM, "AsyncLLM", ("engine_core", "vllm_config")),
        Defines(ASYNC_LLM, "AsyncLLM.errored", takes=("self",)),
        Defines(CLIENT, "AsyncMPClient.call_utility_async", takes=("self", "method", "*args")),
        Defines(ASYNC_LLM, "AsyncLLM.generate", takes=("self", "prompt", "sampling_params", "request_id")),
        Holds(OUTPUTS, "RequestOutput", ("outputs",)),
        Holds(OUTPUTS, "CompletionOutput", ("token_ids",)),
        Imports("vllm/__init__.py", "SamplingParams"),
        Holds("vllm/sampling_params.py", "SamplingParams", ("temperature", "max_tokens", "ignore_eos")),
        Holds("vllm/sampling_params.py", "SamplingParams", ("detokenize",)),
        Holds(VLLM_CONFIG, "VllmConfig", ("model_config",)),
        Holds("vllm/config/model.py", "ModelConfig", ("served_model_name",)),
    ),
    # K limits of requests. Drafts of a request are its list at the step; shorter ones are usual.
    *of(
        "vllm_adapter/sampling_params.py",
        Defines(SAMPLING, "SamplingParams.from_optional"),
        Holds(SAMPLING, "SamplingParams", ("extra_args",)),
        Defines("vllm/exceptions.py", "VLLMValidationError.__init__", takes=("self", "message", "parameter")),
        *(
            Says(path, f"{name}.to_sampling_params", code)
            for path, name in _LIMITED_ROUTES
            for code in ("self.vllm_xargs if self.vllm_xargs else {}", "SamplingParams.from_optional")
        ),
    ),
    *of(
        "vllm_adapter/scheduler.py",
        Defines(SCHEDULER, "Scheduler.add_request", takes=("self", "request")),
        Holds(REQUEST, "Request", ("sampling_params", "spec_token_ids", "request_id", "lora_request")),
        Holds(REQUEST, "Request", ("num_prompt_tokens", "max_tokens")),
        Defines(REQUEST, "Request.num_output_tokens"),
        Defines(REQUEST, "Request.use_structured_output"),
        Holds("vllm/lora/request.py", "LoRARequest", ("lora_name",)),
        Says(SCHEDULER, "Scheduler.schedule", "spec_token_ids = request.spec_token_ids"),
        Says(
            SCHEDULER,
            "Scheduler.schedule",
            "scheduled_spec_decode_tokens[request.request_id] = spec_token_ids",
        ),
        Says(SCHEDULER, "Scheduler.schedule", "self._update_after_schedule(scheduler_output)"),
        Says(REQUEST, "Request.num_tokens_with_spec", "len(self._all_token_ids) + len(self.spec_token_ids)"),
        Says(
            ASYNC_SCHEDULER,
            "AsyncScheduler._update_after_schedule",
            "request.spec_token_ids = self._spec_token_placeholders",
        ),
        Defines(SCHEDULER, "Scheduler.make_spec_decoding_stats", takes=("self", "spec_decoding_stats")),
        Says(SCHEDULER, "Scheduler.update_from_output", _COUNTED_DRAFT),
    ),
    # A row without drafts after accepted ones reads the right recurrent state.
    *of(
        "vllm_adapter/support.py",
        Says(
            V1_RUNNER,
            "GPUModelRunner._prepare_inputs",
            "(num_decode_draft_tokens < 0) & zero_draft_decode_mask",
        ),
        Says(
            MAMBA_HYBRID,
            "MambaHybridModelState.prepare_attn",
            "np.where(is_decode, num_draft_tokens_per_req, -1)",
        ),
        since=RECURRENT_STATES_RIGHT,
    ),
    # Before, the one engine is asked: several ranks cannot be tuned anyway.
    Expectation(
        Defines(CLIENT, "AsyncMPClient.call_utility_all_async", takes=("self", "method", "*args")),
        "vllm_adapter/engine_cores.py",
        since=(0, 32),
    ),
    *of(
        "http/endpoint.py",
        Names(PLUGINS, ("vllm.general_plugins", "vllm.endpoint_plugins")),
        Defines(PLUGINS, "load_endpoint_plugins"),
        Holds(ENDPOINT, "EndpointPlugin", ("name", "required_tasks")),
        Defines(ENDPOINT, "EndpointPlugin.attach_router", takes=("self", "app")),
        Defines(ENDPOINT, "EndpointPlugin.init_state", takes=("self", "engine_client", "state", "args")),
    ),
    Expectation(
        Defines(ASYNC_LLM, "AsyncLLM.shutdown", takes=("self", "timeout")), "vllm_adapter/engine_cores.py"
    ),
    *of("http/server.py", *_serving(LAUNCHER_UNTIL_0_29), until=(0, 29)),
    *of("http/server.py", *_serving(LAUNCHER), since=(0, 29)),
    *of("http/graceful_shutdown.py", Names(HEALTH, ("/health",))),
    *of(
        "vllm_adapter/processes.py",
        Says(CORE, "EngineCoreProc.run_engine_core", "logger.exception('EngineCore failed to start.')"),
        Says(
            CORE,
            "EngineCoreProc.run_engine_core",
            "logger.exception('EngineCore encountered a fatal error.')",
        ),
        Says(
            "vllm/v1/executor/multiproc_executor.py",
            "WorkerProc.worker_main",
            "logger.exception('WorkerProc failed to start.')",
        ),
    ),
    *of("vllm_adapter/processes.py", Names("vllm/entrypoints/openai/api_server.py", ("__main__",))),
    *of(
        "vllm_adapter/processes.py",
        Imports(SERVE, "FlexibleArgumentParser"),
        Imports(SERVE, "make_arg_parser"),
        Imports(SERVE, "validate_parsed_serve_args"),
        Defines(SERVE, "ServeSubcommand.cmd", takes=("args",)),
        Says(SERVE, "ServeSubcommand.cmd", "run_headless(args)"),
        Says(SERVE, "run_headless", "executor.start_worker_monitor(inline=True)"),
        Holds(ARGUMENTS, "EngineArgs", ("nnodes", "node_rank", "master_addr", "master_port")),
    ),
    *of(
        "outrider.plan",
        Says(NGRAM, "NgramProposer.__init__", "self.num_numba_thread_available = min(1, (cpu_count // 2))"),
        Holds(ARGUMENTS, "EngineArgs", ("model", "revision", "served_model_name", "max_model_len")),
        Holds(ARGUMENTS, "EngineArgs", ("max_num_seqs", "gpu_memory_utilization", "speculative_config")),
        Holds(
            ARGUMENTS, "EngineArgs", ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
        ),
        Holds(ARGUMENTS, "EngineArgs", ("enable_expert_parallel", "shutdown_timeout")),
        Holds(SPECULATIVE, "SpeculativeConfig", ("model", "revision", "draft_tensor_parallel_size")),
        Holds(SPECULATIVE, "SpeculativeConfig", ("num_speculative_tokens_per_batch_size",)),
        Holds(SPECULATIVE, "SpeculativeConfig", ("prompt_lookup_min", "prompt_lookup_max")),
        Holds(SPECULATIVE, "SpeculativeConfig", ("use_heterogeneous_vocab",)),
        Says(
            PROPOSER,
            "SpecDecodeBaseProposer.set_inputs_first_pass",
            "self.vocab_mapping.map_target_to_draft_ids(target_token_ids)",
        ),
        Says(CORE, "EngineCoreProc.run_engine_core", "data_parallel and vllm_config.model_config.is_moe"),
        Names(ENVIRONMENT, ("VLLM_PLUGINS", "VLLM_USE_V2_MODEL_RUNNER", "VLLM_NO_USAGE_STATS")),
    ),
    *of(
        "outrider.telemetry",
        Names(SPEC_METRICS, ("vllm:spec_decode_num_drafts", "vllm:spec_decode_num_draft_tokens")),
        Names(SPEC_METRICS, ("vllm:spec_decode_num_accepted_tokens",)),
        Names(SPEC_METRICS, ("vllm:spec_decode_num_accepted_tokens_per_pos",)),
        Names(LOGGERS, ("vllm:iteration_tokens_total", "vllm:inter_token_latency_seconds")),
        Names(LOGGERS, ("vllm:time_to_first_token_seconds", "vllm:generation_tokens")),
        Names(
            LOGGERS, ("vllm:prompt_tokens_by_source", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
        ),
    ),
    *of(
        "outrider_twin",
        Names(PLUGINS, ("vllm.platform_plugins",)),
        Defines(CPU_PLATFORM, "CpuPlatform.check_and_update_config", takes=("cls", "vllm_config")),
        Defines(PLATFORM, "Platform.pre_register_and_update", takes=("cls", "parser")),
        Defines(PLATFORM, "Platform.validate_request", takes=("cls", "processed_inputs", "params")),
        Says(
            "vllm/v1/engine/input_processor.py",
            "InputProcessor.process_inputs",
            "current_platform.validate_request(engine_input, params)",
        ),
        Defines("vllm/exceptions.py", "VLLMValidationError"),
        Defines(REGISTRY, "_run_in_subprocess", takes=("fn",)),
        Holds(VLLM_CONFIG, "VllmConfig", ("lora_config", "kv_transfer_config")),
        Imports(VLLM_CONFIG, "HAS_TRITON"),
        Holds("vllm/config/model.py", "ModelConfig", ("runner_type", "get_num_kv_heads", "get_head_size")),
        Holds("vllm/config/model.py", "ModelConfig", ("get_num_layers", "dtype")),
        Holds(PARALLEL, "ParallelConfig", ("distributed_executor_backend", "world_size")),
        Holds(SCHEDULER_CONFIG, "SchedulerConfig", ("async_scheduling",)),
        Holds(
            SAMPLING, "SamplingParams", ("extra_args", "logprobs", "prompt_logprobs", "structured_outputs")
        ),
        Holds(SAMPLING, "SamplingParams", ("allowed_token_ids", "logit_bias", "bad_words")),
        Defines(EXECUTOR, "Executor._init_executor", takes=("self",)),
        Defines(EXECUTOR, "Executor.execute_model", takes=("self", "scheduler_output", "non_block")),
        Defines(EXECUTOR, "Executor.sample_tokens", takes=("self", "grammar_output", "non_block")),
        Defines(
            EXECUTOR,
            "Executor.collective_rpc",
            takes=("self", "method", "timeout", "args", "kwargs", "non_block"),
        ),
        Holds(EXECUTOR, "Executor", ("take_draft_token_ids", "supports_async_scheduling", "supported_tasks")),
        Holds(EXECUTOR, "Executor", ("get_kv_cache_specs", "determine_available_memory")),
        Holds(EXECUTOR, "Executor", ("get_supported_kv_cache_layouts", "set_kv_cache_layout")),
        Holds(EXECUTOR, "Executor", ("initialize_from_config", "compile_or_warm_up_model")),
        Holds(EXECUTOR, "Executor", ("check_health", "shutdown", "scheduler_config")),
        Holds(
            EXECUTOR, "Executor", ("model_config", "parallel_config", "cache_config", "speculative_config")
        ),
        Holds(KV_CACHE, "FullAttentionSpec", ("block_size", "num_kv_heads", "head_size", "dtype")),
        Holds(RUNNER_OUTPUTS, "ModelRunnerOutput", ("req_ids", "req_id_to_index", "sampled_token_ids")),
        Holds(RUNNER_OUTPUTS, "DraftTokenIds", ("req_ids", "draft_token_ids")),
        Imports(RUNNER_OUTPUTS, "EMPTY_MODEL_RUNNER_OUTPUT"),
        Holds(
            SCHEDULER_OUTPUT, "NewRequestData", ("prompt_token_ids", "prefill_token_ids", "sampling_params")
        ),
        Holds(SCHEDULER_OUTPUT, "CachedRequestData", ("resumed_req_ids",)),
        Defines(ASYNC_LLM, "AsyncLLM.collective_rpc", takes=("self", "method", "timeout", "args")),
        since=TWIN_SINCE,
    ),
    *OF_WORKERS,
    *OF_ADAPTIVE_VERIFICATION,
    *OF_V2,
)
