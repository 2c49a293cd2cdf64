"""SGLang: from a spec to the flags of ``sglang.launch_server``.

Source of names and meanings: ``sglang/srt/arg_groups`` of SGLang 0.5.20 to 0.5.23.
"""

from __future__ import annotations

from outrider.api.engine_args import Scalar
from outrider.api.spec import Spec
from outrider.runtimes.artifacts import path_in_pod
from outrider.runtimes.engine_launch import MASTER_PORTS, EngineLaunch
from outrider.runtimes.sglang import adaptive
from outrider.runtimes.sglang.flags import FLAGS
from outrider.runtimes.sglang.limits import max_num_seqs
from outrider_protocol.methods import Method
from outrider_protocol.sglang_releases import ALGORITHMS

Flags = dict[str, Scalar | list[Scalar]]

_LEADER_ADDRESS = "$(LWS_LEADER_ADDRESS)"
_INDEX = "$(LWS_WORKER_INDEX)"
"""Variables that the LeaderWorkerSet's controller gives to each pod; the leader's index is 0."""
_CHAINS = (Method.EAGLE, Method.EAGLE3, Method.MTP, Method.DRAFT_MODEL)
"""Methods that draft step by step. A chain has one token for each step, and one that the target adds."""


def arguments(launch: EngineLaunch, *, served_name: str) -> tuple[str, ...]:
    """Command-line arguments in a stable order, without the program.

    Raises:
        ValueError: the arguments contradict each other; the message names the field.
    """
    spec = launch.spec
    own = spec.engine.args
    max_num_seqs(own)  # Only checked: it is passed on as it is written.
    flags: Flags = {
        "model-path": path_in_pod(spec.model.uri),
        "served-model-name": served_name,
        "host": "0.0.0.0",
        "port": spec.engine.port,
        "enable-metrics": True,
    }
    if spec.model.revision is not None:
        flags["revision"] = spec.model.revision
    if spec.model.longest_context is not None:
        flags["context-length"] = spec.model.longest_context
    flags |= _parallelism(spec) | _speculation(launch)
    flags |= {flag: own[flag] for flag in sorted(own)}
    return tuple(word for flag, value in flags.items() for word in FLAGS.words(flag, value))


def _parallelism(spec: Spec) -> Flags:
    """All pods of a replica start the same program, and meet at the leader's port."""
    given = spec.parallelism
    sizes = {"tp-size": given.tensor, "pp-size": given.pipeline, "dp-size": given.data}
    flags: Flags = {flag: size for flag, size in sizes.items() if size > 1}
    if given.expert:
        flags["ep-size"] = given.tensor
    if given.nodes > 1:
        port = next(port for port in MASTER_PORTS if port != spec.engine.port)
        flags |= {
            "nnodes": given.nodes,
            "node-rank": _INDEX,
            "dist-init-addr": f"{_LEADER_ADDRESS}:{port}",
        }
    return flags


def _speculation(launch: EngineLaunch) -> Flags:
    spec, wanted = launch.spec, launch.spec.speculation
    if wanted.method is Method.NONE:
        return {}
    flags: Flags = {"speculative-algorithm": ALGORITHMS[wanted.method]}
    if wanted.drafter is not None:
        flags["speculative-draft-model-path"] = path_in_pod(wanted.drafter.uri)
        if wanted.drafter.revision is not None:
            flags["speculative-draft-model-revision"] = wanted.drafter.revision
    flags |= _lengths(wanted.method, wanted.num_speculative_tokens)
    if adaptive.configuration(spec, launch.table) is not None:
        flags["speculative-adaptive"] = True
        flags["speculative-adaptive-config"] = adaptive.FILE
    return flags


def _lengths(method: Method, k: int | None) -> Flags:
    """K drafted tokens, in the terms of each algorithm. None: the length of the drafter's block."""
    if k is None:
        return {}
    if method in _CHAINS:
        return {
            "speculative-num-steps": k,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": k + 1,
        }
    if method is Method.DFLASH:
        return {"speculative-dflash-block-size": k + 1}
    if method is Method.DSPARK:
        return {"speculative-dspark-block-size": k}
    return {"speculative-num-draft-tokens": k + 1}
