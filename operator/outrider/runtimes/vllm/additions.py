"""Why Outrider adds what it adds to vLLM's command line and environment, and what it would advise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from outrider.api.spec import Spec
from outrider.api.text import shortened
from outrider.runtimes.flag_values import own_value
from outrider.runtimes.plugin import WHY
from outrider.runtimes.resources import too_few_gpus
from outrider.runtimes.vllm.environment import PLUGINS_VARIABLE, RUNNER_VARIABLE
from outrider.runtimes.vllm.flags import FLAGS
from outrider_protocol.methods import Method

_TABLE = "num_speculative_tokens_per_batch_size"
_FLAGS: Mapping[str, str] = {
    "served-model-name": "the name of the object, since spec.model.servedName is not set",
    "port": "probes and the Service find the engine here; spec.engine.port is another one",
    "shutdown-timeout": "requests of a stopping pod end, which vLLM cuts off at once",
    "distributed-executor-backend": "pods of one replica work together without Ray",
    "nnodes": "from spec.parallelism.nodes",
    "node-rank": "which pod of its replica this is",
    "master-addr": "where the pods of a replica meet",
    "master-port": "where the pods of a replica meet",
    "headless": "a worker answers no requests",
}
_CONFIG: Mapping[str, str] = {
    "prompt_lookup_min": "shorter matches than two tokens are mostly chance; vLLM's own is 5",
    "prompt_lookup_max": "vLLM's own, said with the other one",
    "draft_tensor_parallel_size": "vLLM takes no other size than the model's for this method",
    "parallel_drafting": "what makes this method of it",
    _TABLE: "every K that the tuner may choose, so that vLLM captures graphs for each; the plugin puts the "
    "current schedule in its place",
}
_STOCK_TABLE = "the static schedule, which an engine without Outrider's plugin keeps"
_VARIABLES: Mapping[str, str] = {
    **WHY,
    PLUGINS_VARIABLE: "vLLM loads these plugins, and no others; podTemplate may name more",
    RUNNER_VARIABLE: "the model runner on which K can change; spec.engine.modelRunner decides otherwise",
    "VLLM_NO_USAGE_STATS": "nothing is sent to vLLM's makers",
    "NUMBA_NUM_THREADS": "n-gram looks up on one thread; more of them only get in its way",
    "VLLM_HOST_IP": "where the other pods of the replica find this one",
}
_ASSISTANTS = ("-assistant", "-mtp", "_mtp", "-nextn")
"""Ends of the names of checkpoints of which vLLM makes method mtp, whatever is said. From source."""


def flag_additions(spec: Spec, words: Sequence[str], *, stock: bool) -> Iterator[tuple[str, str]]:
    """Each flag, and each key of the speculative configuration, that no field says, and why it is there."""
    said = {FLAGS.full_name(name) for name in spec.engine.args}
    said |= {"served-model-name"} if spec.model.served_name is not None else set()
    said |= {"port"} if "port" in spec.engine.model_fields_set else set()
    for word in words:
        flag, _, value = word.partition("=")
        name = flag.removeprefix("--")
        if name == "speculative-config":
            yield from _config_additions(spec, value, stock=stock)
        elif flag.startswith("--") and name in _FLAGS and name not in said:
            yield word, _FLAGS[name]


def _config_additions(spec: Spec, text: str, *, stock: bool) -> Iterator[tuple[str, str]]:
    drafter = spec.speculation.drafter
    said = set(spec.speculation.config)
    said |= {"draft_tensor_parallel_size"} if drafter is not None and drafter.tensor_parallel_size else set()
    for key, value in json.loads(text).items():
        if key in _CONFIG and key not in said:
            why = _STOCK_TABLE if stock and key == _TABLE else _CONFIG[key]
            yield f"--speculative-config {key}={json.dumps(value, separators=(',', ':'))}", why


def variable_additions(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each variable that Outrider sets, and why."""
    yield from ((name, _VARIABLES[name]) for name in names if name in _VARIABLES)


def advice(spec: Spec) -> list[str]:
    """What is allowed, and probably not what was meant."""
    flags = (FLAGS.advice(name, spec.engine.version) for name in spec.engine.args)
    # Ray has GPUs of its own cluster.
    on_ray = own_value(spec.engine.args, "distributed-executor-backend") == "ray"
    found = [text for text in (None if on_ray else too_few_gpus(spec), *flags) if text is not None]
    wanted, drafter = spec.speculation, spec.speculation.drafter
    if (
        wanted.method is Method.DRAFT_MODEL
        and drafter is not None
        and drafter.uri.partition("#")[0].lower().endswith(_ASSISTANTS)
    ):
        found.append(
            f"spec.speculation.method: {shortened(drafter.uri, 80)} looks like a prediction layer of its "
            "target, of which vLLM makes method mtp after Outrider has chosen runner and table; write mtp"
        )
    return found
