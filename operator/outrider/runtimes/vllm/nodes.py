"""vLLM over several nodes: the same program in each pod, with the number of its node.

Multiprocessing, which needs no Ray in the image: the leader serves and schedules, workers start
``vllm serve --headless``, and all meet at the leader's port. Source: vLLM 0.32.0, ``vllm.config.parallel``
and ``vllm.entrypoints.cli.serve``.
"""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.runtimes.engine_launch import MASTER_PORTS, Role
from outrider.runtimes.flag_values import own_value

_BACKEND = "distributed-executor-backend"
_MULTIPROCESSING = "mp"

_LEADER_ADDRESS = "$(LWS_LEADER_ADDRESS)"
_INDEX = "$(LWS_WORKER_INDEX)"
"""Variables that the LeaderWorkerSet's controller gives to each pod; the leader's index is 0."""


def arguments(spec: Spec, role: Role) -> list[str]:
    """Flags by which the pods of a replica find one another; none where it is one pod.

    Raises:
        ValueError: the spec names another way to spread; the message names the field.
    """
    if spec.parallelism.nodes == 1:
        return []
    named = own_value(spec.engine.args, _BACKEND)
    if named not in (None, _MULTIPROCESSING):
        raise ValueError(f"spec.engine.args.{_BACKEND}: several nodes work together by mp; leave it out")
    words = [
        f"--{_BACKEND}={_MULTIPROCESSING}",
        f"--nnodes={spec.parallelism.nodes}",
        f"--node-rank={_INDEX}",
        f"--master-addr={_LEADER_ADDRESS}",
        f"--master-port={_master_port(spec)}",
    ]
    return [*words, "--headless"] if role is Role.WORKER else words


def address_variable(spec: Spec) -> str | None:
    """Where vLLM reads its own address; its default is an address that the internet sees."""
    return None if spec.parallelism.nodes == 1 else "VLLM_HOST_IP"


def _master_port(spec: Spec) -> int:
    return next(port for port in MASTER_PORTS if port != spec.engine.port)
