"""What an engine was launched with, read from vLLM's own configuration.

Source: vLLM 0.32.0, `vllm.config.vllm.VllmConfig`.
"""

from __future__ import annotations

from typing import Any

from outrider_engine.control.engine_facts import Room
from outrider_engine.vllm_adapter.adaptive_verification import verifies_adaptively
from outrider_engine.vllm_adapter.support import VllmFacts
from outrider_protocol.releases import Runner

SIMULATED = "simulated"
"""In vLLM's ``additional_config``: set by a platform whose engines compute nothing."""


def facts_of(config: Any) -> VllmFacts:
    """The facts about an engine of this configuration."""
    import vllm

    graphs = config.compilation_config.cudagraph_mode
    speculation, extra = config.speculative_config, config.additional_config
    model, parallel = config.model_config, config.parallel_config
    drafter = None if speculation is None else speculation.draft_model_config
    return VllmFacts(
        engine_version=vllm.__version__,
        method=None if speculation is None else speculation.method,
        runner=Runner.V2 if config.use_v2_model_runner else Runner.V1,
        max_num_seqs=config.scheduler_config.max_num_seqs,
        num_speculative_tokens=0 if speculation is None else speculation.num_speculative_tokens,
        data_parallel_size=parallel.data_parallel_size,
        pipeline_parallel_size=parallel.pipeline_parallel_size,
        parallel_drafting=bool(speculation and speculation.parallel_drafting),
        several_modules=_drafts_with_several_modules(speculation),
        simulated=extra.get(SIMULATED) if isinstance(extra, dict) else None,
        async_scheduling=bool(config.scheduler_config.async_scheduling),
        multimodal=bool(model.is_multimodal_model),
        recurrent=_is_recurrent(model),
        adaptive_verification=verifies_adaptively(config),
        recurrent_drafter=getattr(speculation, "method", None) == "draft_model" and _is_recurrent(drafter),
        windowed_drafter=drafter is not None and drafter.get_sliding_window() is not None,
        context_parallel=parallel.decode_context_parallel_size * parallel.prefill_context_parallel_size > 1,
        adapters_of=None if config.lora_config is None else str(model.served_model_name),
        shares_cache=config.kv_transfer_config is not None,
        cuda_graphs=graphs.name if graphs else None,
        room=_room(config),
    )


def _is_recurrent(model: Any) -> bool:
    """vLLM decides by the class of the model. In a release with other names the self-test finds it."""
    names = ("is_hybrid", "is_attention_free", "has_inner_state")
    return any(bool(getattr(model, name, False)) for name in names)


def _drafts_with_several_modules(speculation: Any) -> bool:
    """Older releases have no such model."""
    asked = getattr(speculation, "use_multi_module_mtp", None)
    return asked is not None and bool(asked())


def _room(config: Any) -> Room | None:
    """None in a release with other names, which then has no startup profile."""
    model: Any = getattr(config, "model_config", None)
    cache: Any = getattr(config, "cache_config", None)
    request, blocks = getattr(model, "max_model_len", None), getattr(cache, "num_gpu_blocks", None)
    if not (request and blocks):
        return None
    return Room(request, getattr(cache, "kv_cache_size_tokens", None) or blocks * cache.block_size)
