"""vLLM: from a spec to the flags of its API server.

Flag names are those of ``vllm.entrypoints.openai.api_server``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from outrider.api.engine_args import Scalar
from outrider.api.spec import Spec
from outrider.api.speculation import Speculation
from outrider.runtimes.artifacts import path_in_pod
from outrider.runtimes.flag_values import canonical, own_value
from outrider.runtimes.vllm import lora
from outrider.runtimes.vllm.flags import FLAGS
from outrider.runtimes.vllm.launch_table import launch_table, stock_table
from outrider.runtimes.vllm.limits import (
    SHUTDOWN_TIMEOUT,
    batch_on_every_machine,
    max_num_batched_tokens,
    max_num_seqs,
)
from outrider.runtimes.vllm.methods import engine_config, name_on_v2
from outrider.runtimes.vllm.runner import TablePlace, launch_form, starts_on_v2
from outrider_protocol.methods import Kind, Method, methods_with
from outrider_protocol.releases import ADAPTIVE_VERIFICATION
from outrider_protocol.schedule import Schedule

_SPREAD_AS_TARGET = methods_with(kind=Kind.MODEL)
_READ_THEIR_SIZE = (*_SPREAD_AS_TARGET, Method.DSPARK)
"""Methods whose drafter vLLM spreads by ``draft_tensor_parallel_size``; all others lie as their target."""
_LOOKUP = ("prompt_lookup_min", "prompt_lookup_max")


def arguments(spec: Spec, *, served_name: str, table: Schedule | None = None) -> list[str]:
    """Command-line arguments in a stable order, without the program.

    table: the schedule that the engine keeps; None where the plugin can change it.

    Raises:
        ValueError: the arguments contradict each other; the message names the field.
    """
    own = spec.engine.args
    limit = max_num_seqs(own)
    max_num_batched_tokens(own)  # Only checked: it is passed on as it is written.
    flags: dict[str, Scalar | list[Scalar]] = {
        "model": path_in_pod(spec.model.uri),
        "served-model-name": _names(spec, served_name),
        "port": spec.engine.port,
    }
    if limit is not None:
        flags["max-num-seqs"] = limit
    if spec.model.revision is not None:
        flags["revision"] = spec.model.revision
    if spec.model.max_length is not None:
        flags["max-model-len"] = spec.model.max_length
    flags |= _parallelism(spec)
    if own_value(own, "shutdown-timeout") is None:
        flags["shutdown-timeout"] = SHUTDOWN_TIMEOUT
    flags |= lora.flags(spec)
    config = speculative_config(spec, table=table)
    if config is not None:
        flags["speculative-config"] = json.dumps(config, separators=(",", ":"))
    flags |= {flag: own[flag] for flag in sorted(own) if canonical(flag) != "max-num-seqs"}
    return [word for flag, value in flags.items() for word in FLAGS.words(flag, value)]


def speculative_config(spec: Spec, *, table: Schedule | None = None) -> dict[str, object] | None:
    """The value of ``--speculative-config``; None without speculation. table: see `arguments`.

    Raises:
        ValueError: as `arguments`.
    """
    wanted = spec.speculation
    if wanted.method is Method.NONE:
        return None
    config: dict[str, object] = {**_config_of(wanted), **wanted.config}
    name = name_on_v2(wanted.method, spec.engine.version)
    if name is not None and starts_on_v2(spec):
        config["method"] = str(name)
    if wanted.drafter is not None:
        config["model"] = path_in_pod(wanted.drafter.uri)
        if wanted.drafter.revision is not None:
            config["revision"] = wanted.drafter.revision
        size = _drafter_tensor_parallel_size(spec)
        if size is not None:
            config["draft_tensor_parallel_size"] = size
    if wanted.verifies_adaptively:
        config[ADAPTIVE_VERIFICATION] = True
    if wanted.num_speculative_tokens is not None:
        config["num_speculative_tokens"] = wanted.num_speculative_tokens
    if table is not None:
        config["num_speculative_tokens_per_batch_size"] = stock_table(table, max_num_seqs(spec.engine.args))
    elif spec.live:
        every_candidate = launch_table(spec.candidates(), batch_on_every_machine(spec.engine.args))
        if launch_form(spec, stock=False).table is TablePlace.FLAGS:
            config["num_speculative_tokens_per_batch_size"] = every_candidate
    return config


def _names(spec: Spec, first: str) -> Scalar | list[Scalar]:
    """Answers and metrics have the first name."""
    further = [name for name in spec.model.served_aliases if name != first]
    return [first, *further] if further else first


def _parallelism(spec: Spec) -> dict[str, Scalar]:
    sizes = {
        "tensor-parallel-size": spec.parallelism.tensor,
        "pipeline-parallel-size": spec.parallelism.pipeline,
        "data-parallel-size": spec.parallelism.data,
    }
    flags: dict[str, Scalar] = {flag: size for flag, size in sizes.items() if size > 1}
    if spec.parallelism.expert:
        flags["enable-expert-parallel"] = True
    return flags


def _config_of(wanted: Speculation) -> Mapping[str, str | int | bool]:
    """The method's own keys. Half of a pair is never added to the other half: vLLM has a default for it."""
    own = engine_config(wanted.method)
    said = any(key in wanted.config for key in _LOOKUP)
    return {key: value for key, value in own.items() if not (said and key in _LOOKUP)}


def _drafter_tensor_parallel_size(spec: Spec) -> int | None:
    """The size to write; None where the spec names none, and where vLLM does not read it."""
    wanted, drafter = spec.speculation, spec.speculation.drafter
    if wanted.method not in _READ_THEIR_SIZE or drafter is None:
        return None
    if drafter.tensor_parallel_size is not None:
        return drafter.tensor_parallel_size
    return spec.parallelism.tensor if wanted.method in _SPREAD_AS_TARGET else None
