"""Whether a launch can verify adaptively on this GPU: vLLM's own answer, before it loads weights.

``python -m outrider_engine.vllm_adapter.attention <flags of the API server>`` writes one line of JSON to its
output: ``{"obstacle": …}``, with the cause, or null. vLLM checks the same after it has loaded the weights,
and ends there. Only vLLM knows which attention backend a layer gets: by the GPU, the layer, flags and
variables. So it builds the layers of the target without storage (torch's meta device), and each names its
backend.

Source: ``maybe_create_adaptive_verification_manager``, ``get_varlen_cudagraph_unsupported_backend``. Releases
before 0.31 accept no bound; their builders have none.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outrider_protocol.releases import ADAPTIVE_VERIFICATION

FLAGS = ("--speculative-config", "--speculative_config")
OBSTACLE = "obstacle"


def speculative_config(arguments: Sequence[str]) -> dict[str, Any]:
    """vLLM's speculative configuration in the server's flags; empty without one that can be parsed."""
    text = ""
    for index, word in enumerate(arguments):
        flag, _, value = word.partition("=")
        if flag in FLAGS:
            text = value or "".join(arguments[index + 1 : index + 2])
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def without_adaptive(arguments: Sequence[str]) -> list[str]:
    """The flags with adaptive verification turned off."""
    kept = {**speculative_config(arguments), ADAPTIVE_VERIFICATION: False}
    words: list[str] = []
    given = iter(arguments)
    for word in given:
        flag, equals, _ = word.partition("=")
        if flag not in FLAGS:
            words.append(word)
        elif not equals:
            next(given, None)
    return [*words, f"{FLAGS[0]}={json.dumps(kept, separators=(',', ':'))}"]


def obstacle(arguments: Sequence[str]) -> str | None:
    """Why vLLM cannot verify adaptively with these flags on this machine; None where it can.

    Raises:
        Exception: vLLM cannot be asked, or does not start with these flags either way.
    """
    try:
        config = _configured(arguments)
    except ValueError as refusal:
        _configured(without_adaptive(arguments))  # else the flags are wrong in another way
        return _sentence(refusal)
    longest = 1 + config.num_speculative_tokens
    return next((why for layer in _layers(config) if (why := _of_layer(layer, config, longest))), None)


def _configured(arguments: Sequence[str]) -> Any:
    """vLLM's configuration of an API server with these flags."""
    import vllm.entrypoints.cli.serve as serve
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    parsed = serve.make_arg_parser(serve.FlexibleArgumentParser()).parse_args(list(arguments))
    return AsyncEngineArgs.from_cli_args(parsed).create_engine_config(UsageContext.OPENAI_API_SERVER)


def _layers(config: Any) -> Iterator[tuple[str, Any]]:
    """The layers of the target with a KV cache or a state, by their names."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed.parallel_state import init_distributed_environment, initialize_model_parallel
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    parallel = config.parallel_config
    for size in ("world_size", "nnodes", "tensor_parallel_size", "data_parallel_size"):
        setattr(parallel, size, 1)
    with tempfile.TemporaryDirectory() as folder, set_current_vllm_config(config):
        rendezvous = Path(folder) / "alone"
        init_distributed_environment(1, 0, f"file://{rendezvous}", 0, "gloo")
        initialize_model_parallel(1, 1)
        with torch.device("meta"), set_default_torch_dtype(config.model_config.dtype):
            initialize_model(config)
        for name, layer in config.compilation_config.static_forward_context.items():
            if hasattr(layer, "get_attn_backend") and layer.get_kv_cache_spec(config) is not None:
                yield name, layer


def _of_layer(named: tuple[str, Any], config: Any, longest: int) -> str | None:
    """Why the backend of a layer cannot; None where it can. longest: tokens of a request in one step."""
    name, layer = named
    backend = layer.get_attn_backend()
    shown = f"{backend.get_name()} of layer {name}"
    if not backend.supports_device_cpu_query_lens_mismatch():
        return f"the backend {shown} plans its steps before vLLM chooses the draft tokens"
    builder, spec = backend.get_builder_cls(), layer.get_kv_cache_spec(config)
    support = builder.get_cudagraph_support(config, spec)
    if support.name == "ALWAYS":
        return None
    bound = None
    if support.name != "NEVER" and hasattr(builder, "get_varlen_cudagraph_max_query_len"):
        bound = builder.get_varlen_cudagraph_max_query_len(config, spec)
    if bound is not None and bound >= longest:
        return None
    return f"the backend {shown} has no CUDA graphs for requests with different numbers of draft tokens"


def _sentence(refusal: ValueError) -> str:
    """vLLM's own words; those of pydantic have its advice below."""
    errors = getattr(refusal, "errors", None)
    said = str(errors()[0]["msg"]) if errors is not None else str(refusal)
    return " ".join(said.removeprefix("Value error, ").split())


def main(arguments: Sequence[str]) -> None:
    """See the head of this file. vLLM's log goes to the error output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    found = obstacle(arguments)
    with answers:
        answers.write(json.dumps({OBSTACLE: found}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
