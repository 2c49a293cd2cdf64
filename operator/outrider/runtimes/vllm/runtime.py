"""vLLM as a `Runtime`: its answers, each from the module that knows it."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.api.engine import Engine
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.runtimes.engine_launch import EngineLaunch, Role
from outrider.runtimes.images import engine_image
from outrider.runtimes.runtime import Args, EngineContainer, EngineImage
from outrider.runtimes.vllm import (
    adaptive_verification,
    additions,
    arguments,
    control,
    environment,
    heads,
    known_defects,
    kv_transfer,
    limits,
    lora,
    methods,
    nodes,
    one_k,
    picker_labels,
    runner,
    shutdown,
)
from outrider.runtimes.vllm.flags import FLAGS
from outrider.runtimes.vllm.metrics import DIALECT
from outrider_protocol.environment import CONTROL_PORT_VARIABLE, POD_UID_VARIABLE

_WITH_PLUGIN = ("python3", "-m", "outrider_engine.launch")
_STOCK = ("python3", "-m", "vllm.entrypoints.openai.api_server")

_HEALTH = "/health"
_READINESS = "/health?readiness"
"""The plugin answers 503 here while the pod drains; without it this is `_HEALTH`."""

_OWN_IMAGE = "vllm/vllm-openai"
"""vLLM's own image for NVIDIA GPUs; its tags are ``v`` and the version."""


class Vllm:
    """Implements `outrider.runtimes.runtime.Runtime`."""

    metrics = DIALECT
    flags = FLAGS
    control = staticmethod(control.control)
    owned_variables = environment.OWNED_VARIABLES
    joined_variables = environment.JOINED_VARIABLES

    flag_additions = staticmethod(additions.flag_additions)
    variable_additions = staticmethod(additions.variable_additions)
    max_num_seqs = staticmethod(limits.max_num_seqs)
    default_max_num_seqs = staticmethod(limits.default_max_num_seqs)
    max_num_batched_tokens = staticmethod(limits.max_num_batched_tokens)
    gpu_memory_share = staticmethod(limits.gpu_memory_share)
    missing_model = staticmethod(shutdown.missing_model)
    remedy = staticmethod(shutdown.remedy)
    settled = staticmethod(one_k.settled)

    def image(self, engine: Engine, images: Mapping[str, str]) -> EngineImage | None:
        """That of the spec, else the operator's for this version, else vLLM's own."""
        return engine_image(engine, images, own=f"{_OWN_IMAGE}:v{engine.version}")

    def unsupported_reason(self, spec: Spec, weights: WeightsStatus | None) -> str | None:
        """Why a release, a method, a head or a launch cannot be served.

        A release may be unchecked, and it or its runner may lack a method or head. A known defect may end a
        launch, or falsify its answers.
        """
        wanted = spec.speculation.method
        return (
            methods.unsupported_reason(wanted, spec.engine.version)
            or methods.length_refusal(spec)
            or adaptive_verification.refusal(spec)
            or runner.runner_refusal(spec)
            or heads.refusal(spec, weights)
            or kv_transfer.refusal(spec)
            or lora.refusal(spec)
            or known_defects.refusal(spec, weights)
        )

    def advice(self, spec: Spec, weights: WeightsStatus | None) -> tuple[str, ...]:
        """That K stays or changes on V1, known defects, KV connectors, unknown flags, and other drafters."""
        launched = one_k.settled(spec, weights)
        of_k = (one_k.advice(spec, weights), runner.advice(launched))
        known = known_defects.advice(launched, weights)
        beside = (*kv_transfer.advice(launched), *additions.advice(spec))
        return (*(text for text in of_k if text is not None), *known, *beside)

    def container(self, launch: EngineLaunch, *, served_name: str) -> EngineContainer:
        """The API server, with the plugin behind its launcher, or stock; or a worker without a server.

        A worker ends with its leader, so it gets as long as that one.
        """
        serves = launch.role is not Role.WORKER
        controlled = serves and not launch.stock
        command = _STOCK if serves and launch.stock else _WITH_PLUGIN
        return EngineContainer(
            seconds_to_end=shutdown.seconds_to_end(launch),
            runs_plugin=command is _WITH_PLUGIN,
            command=command,
            arguments=_arguments(launch, served_name),
            environment=environment.environment(launch.spec, stock=launch.stock),
            pod_uid_variable=POD_UID_VARIABLE if controlled else None,
            control_port_variable=CONTROL_PORT_VARIABLE if controlled else None,
            health_path=_HEALTH if serves else None,
            readiness_path=(_READINESS if controlled else _HEALTH) if serves else None,
            pre_stop=shutdown.pre_stop(launch) if serves else None,
            address_variable=nodes.address_variable(launch.spec),
            picker_labels=picker_labels.picker_labels(launch.spec),
        )

    def largest_batch(self, args: Args) -> int:
        """The value of ``max-num-seqs``, or vLLM's largest default."""
        return limits.max_num_seqs(args) or limits.MAX_DEFAULT_BATCH


def _arguments(launch: EngineLaunch, served_name: str) -> tuple[str, ...]:
    words = arguments.arguments(launch.spec, served_name=served_name, table=launch.table)
    return (*words, *nodes.arguments(launch.spec, launch.role))
