"""vLLM: from a spec to the flags of its API server.

Flag names are those of ``vllm.entrypoints.openai.api_server``.
"""

from __future__ import annotations

import json
import re

from outrider.api.engine_args import Scalar
from outrider.api.methods import Method
from outrider.api.schedule import Schedule
from outrider.api.spec import Spec
from outrider.api.text import shortened
from outrider.plan.artifacts import path_in_pod
from outrider.plan.runtimes.vllm.launch_table import launch_table, stock_table
from outrider.plan.runtimes.vllm.limits import (
    SHUTDOWN_TIMEOUT,
    batch_on_every_machine,
    canonical,
    max_num_batched_tokens,
    max_num_seqs,
    own_value,
)
from outrider.plan.runtimes.vllm.methods import ENGINE_METHODS
from outrider.plan.runtimes.vllm.runner import TablePlace, launch_form

_NEGATIVE_NUMBER = re.compile(r"-[0-9]+")
"""The only word with a dash in front that vLLM's parser takes for a value; at ``-0.5`` it goes astray."""

_TENSOR_PARALLEL_DRAFTERS = (Method.DRAFT_MODEL, Method.PARD)


def arguments(spec: Spec, *, served_name: str, table: Schedule | None = None) -> list[str]:
    """Command-line arguments in a stable order, without the program.

    table: the table that the engine keeps; None where the plugin can change it.

    Raises:
        ValueError: the arguments contradict each other; the message names the field.
    """
    own = spec.engine.args
    limit = max_num_seqs(own)
    max_num_batched_tokens(own)  # Only checked: it is passed on as it is written.
    flags: dict[str, Scalar | list[Scalar]] = {
        "model": path_in_pod(spec.model.uri),
        "served-model-name": served_name,
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
    config = speculative_config(spec, table=table)
    if config is not None:
        flags["speculative-config"] = json.dumps(config, separators=(",", ":"))
    flags |= {flag: own[flag] for flag in sorted(own) if canonical(flag) != "max-num-seqs"}
    return [word for flag, value in flags.items() for word in _words(flag, value)]


def speculative_config(spec: Spec, *, table: Schedule | None = None) -> dict[str, object] | None:
    """The value of ``--speculative-config``; None without speculation. table: see `arguments`.

    Raises:
        ValueError: as `arguments`.
    """
    wanted = spec.speculation
    method = ENGINE_METHODS[wanted.method]
    if wanted.method is Method.NONE or wanted.num_speculative_tokens is None:
        return None
    config: dict[str, object] = {**method.config, **wanted.config}
    if wanted.drafter is not None:
        config["model"] = path_in_pod(wanted.drafter.uri)
        if wanted.drafter.revision is not None:
            config["revision"] = wanted.drafter.revision
        config["draft_tensor_parallel_size"] = _drafter_tensor_parallel_size(spec)
    config["num_speculative_tokens"] = wanted.num_speculative_tokens
    if table is not None:
        config["num_speculative_tokens_per_batch_size"] = stock_table(table, max_num_seqs(spec.engine.args))
    elif spec.live:
        every_candidate = launch_table(spec.candidates(), batch_on_every_machine(spec.engine.args))
        if launch_form(spec, stock=False).table is TablePlace.FLAGS:
            config["num_speculative_tokens_per_batch_size"] = every_candidate
    return config


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


def _drafter_tensor_parallel_size(spec: Spec) -> int:
    """A small drafter is fastest on one GPU; a draft model must spread as its target does."""
    drafter = spec.speculation.drafter
    if drafter is not None and drafter.tensor_parallel_size is not None:
        return drafter.tensor_parallel_size
    return spec.parallelism.tensor if spec.speculation.method in _TENSOR_PARALLEL_DRAFTERS else 1


def _words(flag: str, value: Scalar | list[Scalar]) -> list[str]:
    """One word where vLLM's parser allows it, so that nothing in the value is read as another flag."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and item.startswith("--"):
            raise _like_a_flag(flag, item)
    if "." in flag:  # A part of a flag that takes JSON.
        return [f"--{flag}={value if isinstance(value, str) else json.dumps(value)}"]
    if isinstance(value, bool):
        return [f"--{flag}"] if value else []
    if isinstance(value, list):
        return [f"--{flag}", *(_item(flag, item) for item in value)]
    return [f"--{flag}={value}"]


def _item(flag: str, item: Scalar) -> str:
    """A word of its own, which several values of one flag have to be."""
    word = str(item)
    if word.startswith("-") and not _NEGATIVE_NUMBER.fullmatch(word):
        raise _like_a_flag(flag, word)
    return word


def _like_a_flag(flag: str, value: str) -> ValueError:
    told = f"{shortened(value, 40)} would be read as a flag, and not as a value"
    return ValueError(f"spec.engine.args.{flag}: {told}; write each flag under its own name")
