"""Everything in SGLang that the project stands on: one line each, with the place that uses it."""

from __future__ import annotations

from engine_image.testing.contract.forms import Defines, Expectation, Holds, Imports, Names, Says, of

_SRT = "sglang/srt"
_PLUGINS = f"{_SRT}/plugins/__init__.py"
_REGISTRY = f"{_SRT}/plugins/hook_registry.py"
_POLICY = f"{_SRT}/speculative/adaptive_spec_params.py"
_CONTROLLER = f"{_SRT}/speculative/adaptive_runtime_state.py"
_EAGLE = f"{_SRT}/speculative/eagle_worker_v2.py"
_SCHEDULER = f"{_SRT}/managers/scheduler.py"
_RECEIVER = f"{_SRT}/managers/scheduler_components/request_receiver.py"
_RESULTS = f"{_SRT}/managers/scheduler_components/batch_result_processor.py"
_BATCH = f"{_SRT}/managers/schedule_batch.py"
_UTILS = f"{_SRT}/managers/utils.py"
_MESSAGES = f"{_SRT}/managers/io_struct.py"
_TOKENIZER = f"{_SRT}/managers/tokenizer_manager.py"
_ARGUMENTS = f"{_SRT}/server_args.py"
_HTTP = f"{_SRT}/entrypoints/http_server.py"
_FIELDS = f"{_SRT}/arg_groups/fields"
_IPC = f"{_SRT}/managers/scheduler_components/ipc_channels.py"
_SENDER = f"{_SRT}/managers/scheduler_components/output_sender.py"
_MODES = f"{_SRT}/model_executor/forward_batch_info.py"
_METRICS = f"{_SRT}/observability/metrics_collector.py"
_SPECULATION = f"{_SRT}/arg_groups/speculative_hook.py"
_INTERNAL_STATE = f"{_SRT}/managers/scheduler_components/internal_state.py"

_MOVED = (0, 5, 22)
"""From this release on, the handlers of ``set_internal_state`` are a component of their own."""
_WORKERS_OF_PLATFORMS = (0, 5, 23)

SGLANG_EXPECTATIONS: tuple[Expectation, ...] = (
    *of(
        "outrider_sglang/sglang_adapter/hooks.py",
        Names(_PLUGINS, ("sglang.srt.plugins",)),
        Says(_PLUGINS, "load_plugins", "HookRegistry.apply_hooks()"),
        Defines(_REGISTRY, "HookRegistry"),
        Defines(_REGISTRY, "HookType"),
        Defines(_REGISTRY, "HookRegistry.register", takes=("cls", "target", "hook", "hook_type")),
        Defines(_REGISTRY, "HookRegistry.apply_hooks", takes=("cls",)),
        Holds(_REGISTRY, "HookType", ("AROUND",)),
        Says(_REGISTRY, "_wrap_fn", "functools.wraps(original_fn)"),
        Says(_REGISTRY, "_wrap_fn", "hook(original_fn, *args, **kwargs)"),
    ),
    *of(
        "outrider_sglang/sglang_adapter/scheduler_process.py",
        Defines(_POLICY, "AdaptiveSpeculativeParams.get_steps_for_batch", takes=("self", "batch_size")),
        Defines(
            _POLICY,
            "AdaptiveSpeculativeParams.on_verify_complete",
            takes=("self", "num_correct_drafts_per_req", "batch_size"),
        ),
        Holds(_POLICY, "AdaptiveSpeculativeParams", ("candidate_steps",)),
        Holds(_CONTROLLER, "AdaptiveController", ("params", "candidate_steps")),
        Says(
            _CONTROLLER,
            "AdaptiveController.activate_step_by_batch",
            "self.params.get_steps_for_batch(batch_size)",
        ),
        Says(
            _CONTROLLER,
            "AdaptiveController.init_states",
            "for steps in self.candidate_steps:\n"
            "    if steps in self._states:\n"
            "        continue\n"
            "    pruned_bs = self.params.cuda_graph_bs_for_step(steps)\n"
            "    state = self.worker.build_adaptive_runtime_state(speculative_num_steps=steps,"
            " speculative_num_draft_tokens=steps + 1, cuda_graph_bs=pruned_bs)\n"
            "    self._states[steps] = state",
        ),
        Defines(_SCHEDULER, "Scheduler.__init__", takes=("self", "server_args")),
        Defines(_SCHEDULER, "Scheduler.run_batch", takes=("self", "batch")),
        Defines(_SCHEDULER, "Scheduler.process_batch_result", takes=("self", "batch", "result")),
        Defines(_SCHEDULER, "Scheduler.handle_dumper_control", takes=("self", "recv_req")),
        Defines(_SCHEDULER, "Scheduler.run_event_loop", takes=("self",)),
        Defines(_SCHEDULER, "Scheduler.process_input_requests", takes=("self", "recv_reqs")),
        Defines(_RECEIVER, "SchedulerRequestReceiver._pull_raw_reqs", takes=("self",)),
        Says(_RECEIVER, "SchedulerRequestReceiver._pull_raw_reqs", "recv_reqs = None"),
        Says(
            _RECEIVER,
            "SchedulerRequestReceiver.recv_requests",
            "recv_reqs = self._broadcast_reqs_across_ranks(recv_reqs, local_reqs)",
        ),
    ),
    *of(
        "outrider_sglang/sglang_adapter/channel.py",
        Defines(_MESSAGES, "DumperControlReqOutput"),
        Holds(_SCHEDULER, "Scheduler", ("ipc_channels",)),
        Holds(_IPC, "SchedulerIpcChannels", ("send_to_tokenizer",)),
        Defines(_SENDER, "SenderWrapper.send_output", takes=("self", "output", "recv_obj")),
    ),
    *of(
        "outrider_sglang/sglang_adapter/launch_facts.py",
        Imports("sglang/version.py", "__version__"),
        Holds(
            _SCHEDULER, "Scheduler", ("server_args", "draft_worker", "model_config", "max_running_requests")
        ),
        Holds(_SCHEDULER, "Scheduler", ("max_total_num_tokens",)),
        Holds(_EAGLE, "EAGLEWorkerV2", ("adaptive_controller", "speculative_num_steps")),
        Holds(_EAGLE, "EAGLEWorkerV2", ("speculative_num_draft_tokens",)),
        Holds(f"{_SRT}/configs/model_config.py", "ModelConfig", ("context_len",)),
        Holds(f"{_FIELDS}/spec.py", "Spec", ("speculative_algorithm", "speculative_eagle_topk")),
        Holds(f"{_FIELDS}/parallel.py", "Parallel", ("dp_size", "pp_size")),
        Holds(f"{_FIELDS}/disagg.py", "Disagg", ("disaggregation_mode",)),
    ),
    *of(
        "outrider_sglang/sglang_adapter/scheduler.py",
        Holds(_SCHEDULER, "Scheduler", ("running_batch", "waiting_queue")),
        Holds(_BATCH, "ScheduleBatch", ("reqs", "forward_mode", "extend_num_tokens")),
        Holds(_BATCH, "Req", ("rid", "seqlen", "output_ids", "finished", "is_retracted")),
        Holds(_BATCH, "Req", ("output_ids_through_stop",)),
        Holds(_UTILS, "GenerationBatchResult", ("num_correct_drafts_per_req_cpu",)),
        Holds(_MODES, "ForwardMode", ("is_decode", "is_extend")),
        Says(
            _EAGLE,
            "EAGLEWorkerV2.activate_step_by_batch",
            "self.adaptive_controller.activate_step_by_batch(batch_size)",
        ),
    ),
    *of(
        "outrider_sglang/sglang_adapter/http_process.py",
        Defines(_ARGUMENTS, "PortArgs.init_new"),
        Defines(_HTTP, "_setup_and_run_http_server", takes=("server_args", "tokenizer_manager")),
        Imports(_HTTP, "app"),
        Holds(f"{_FIELDS}/serving.py", "Serving", ("tokenizer_worker_num",)),
    ),
    *of(
        "outrider_sglang/sglang_adapter/engine_cores.py",
        Holds(_TOKENIZER, "TokenizerManager", ("served_model_name", "gracefully_exit")),
        Holds(_TOKENIZER, "TokenizerManager", ("dumper_control", "generate_request", "abort_request")),
        Defines(_MESSAGES, "DumperControlReqInput"),
        Defines(_MESSAGES, "GenerateReqInput"),
        Names(_TOKENIZER, ("output_ids", "output_top_logprobs")),
        Holds(_MESSAGES, "DumperControlReqInput", ("method", "body")),
        Holds(_MESSAGES, "DumperControlReqOutput", ("success", "response", "error")),
        Holds(_MESSAGES, "GenerateReqInput", ("rid", "input_ids", "sampling_params", "log_metrics")),
        Holds(_MESSAGES, "GenerateReqInput", ("return_logprob", "top_logprobs_num")),
    ),
    *of(
        "operator/outrider/runtimes/sglang",
        Defines(_POLICY, "adaptive_unsupported_reason", takes=("server_args",)),
        Says(_POLICY, "adaptive_unsupported_reason", "cfg.speculative_algorithm not in ('EAGLE', 'EAGLE3')"),
        Says(_SPECULATION, "_maybe_disable_adaptive", "adaptive_unsupported_reason(server_args)"),
        Names(_POLICY, ("candidate_steps",)),
        Names(
            _METRICS,
            (
                "sglang:spec_accept_length",
                "sglang:spec_accept_rate",
                "sglang:spec_num_steps",
                "sglang:num_running_reqs",
                "sglang:num_queue_reqs",
                "sglang:token_usage",
                "sglang:gen_throughput",
                "sglang:generation_tokens_total",
                "sglang:prompt_tokens_total",
                "sglang:time_to_first_token_seconds",
                "sglang:inter_token_latency_seconds",
                "sglang:e2e_request_latency_seconds",
            ),
        ),
    ),
    *of(
        "operator/outrider/runtimes/sglang, for the budget of dspark",
        Names(_SCHEDULER, ("dspark_force_budget_frac",)),
        until=_MOVED,
    ),
    *of(
        "operator/outrider/runtimes/sglang, for the budget of dspark",
        Defines(
            _INTERNAL_STATE, "SchedulerInternalStateController.set_internal_state", takes=("self", "recv_req")
        ),
        Names(_INTERNAL_STATE, ("dspark_force_budget_frac",)),
        since=_MOVED,
    ),
    *of(
        "operator/outrider/runtimes/sglang, which names no platform",
        Says(_POLICY, "adaptive_unsupported_reason", "platform_worker_cls is not None"),
        since=_WORKERS_OF_PLATFORMS,
    ),
)
