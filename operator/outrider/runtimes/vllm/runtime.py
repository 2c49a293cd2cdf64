"""vLLM as a `Runtime`: its answers, each from the module that knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.runtimes.engine_launch import EngineLaunch, Role
from outrider.runtimes.runtime import Args, EngineContainer
from outrider.runtimes.vllm import (
    additions,
    arguments,
    control,
    environment,
    heads,
    known_defects,
    last_words,
    limits,
    methods,
    nodes,
    runner,
    shutdown,
    stock_image,
)
from outrider.runtimes.vllm.metrics import DIALECT
from outrider_protocol.environment import CONTROL_PORT_VARIABLE, POD_UID_VARIABLE

_WITH_PLUGIN = ("python3", "-m", "outrider_engine.launch")
_STOCK = ("python3", "-m", "vllm.entrypoints.openai.api_server")

_HEALTH = "/health"
_READINESS = "/health?readiness"
"""The plugin answers 503 here while the pod drains; without it this is `_HEALTH`."""


class Vllm:
    """Implements `outrider.runtimes.runtime.Runtime`."""

    metrics = DIALECT
    control = staticmethod(control.control)
    owned_variables = environment.OWNED_VARIABLES
    joined_variables = environment.JOINED_VARIABLES

    def flag_additions(self, spec: Spec, words: Sequence[str], *, stock: bool) -> Iterable[tuple[str, str]]:
        """Additions of flags, and of keys of the speculative configuration."""
        return additions.flag_additions(spec, words, stock=stock)

    def variable_additions(self, names: Sequence[str]) -> Iterable[tuple[str, str]]:
        """Additions for vLLM and for the plugin."""
        return additions.variable_additions(names)

    def image(self, version: str, images: Mapping[str, str]) -> str | None:
        """The operator's images are of vLLM, one per version."""
        return images.get(version)

    def unsupported_reason(self, spec: Spec, weights: WeightsStatus | None) -> str | None:
        """Why a release, a method, a head, an image or a launch cannot be served.

        A release may be unchecked, and it or its runner may lack a method or head. vLLM's own images lack the
        plugin. A known defect may end a launch, or falsify its answers.
        """
        wanted = spec.speculation.method
        return (
            methods.unsupported_reason(wanted, spec.engine.version)
            or methods.length_refusal(spec)
            or runner.runner_refusal(spec)
            or heads.refusal(spec, weights)
            or known_defects.refusal(spec, weights)
            or stock_image.stock_image_refusal(spec)
        )

    def settled(self, spec: Spec, weights: WeightsStatus | None) -> Spec:
        """With one K where a head may need the V2 runner."""
        return heads.settled(spec, weights)

    def advice(self, spec: Spec, weights: WeightsStatus | None) -> tuple[str, ...]:
        """That K stays, known defects, unknown flags, and drafters of which vLLM makes another method."""
        stays = heads.advice(spec, weights)
        known = known_defects.advice(heads.settled(spec, weights), weights)
        return (*(() if stays is None else (stays,)), *known, *additions.advice(spec))

    def container(self, launch: EngineLaunch, *, served_name: str) -> EngineContainer:
        """The API server, with the plugin behind its launcher, or stock; or a worker without a server."""
        if launch.role is Role.WORKER:
            return self._worker(launch, served_name)
        return EngineContainer(
            seconds_to_end=shutdown.seconds_to_end(launch),
            command=_STOCK if launch.stock else _WITH_PLUGIN,
            arguments=_arguments(launch, served_name),
            environment=environment.environment(launch.spec, stock=launch.stock),
            pod_uid_variable=None if launch.stock else POD_UID_VARIABLE,
            control_port_variable=None if launch.stock else CONTROL_PORT_VARIABLE,
            health_path=_HEALTH,
            readiness_path=_HEALTH if launch.stock else _READINESS,
            pre_stop=shutdown.pre_stop(launch),
            address_variable=nodes.address_variable(launch.spec),
        )

    def _worker(self, launch: EngineLaunch, served_name: str) -> EngineContainer:
        """It ends with its leader, so it gets as long as that one."""
        return EngineContainer(
            seconds_to_end=shutdown.seconds_to_end(launch),
            command=_WITH_PLUGIN,
            arguments=_arguments(launch, served_name),
            environment=environment.environment(launch.spec, stock=launch.stock),
            pod_uid_variable=None,
            control_port_variable=None,
            health_path=None,
            readiness_path=None,
            pre_stop=None,
            address_variable=nodes.address_variable(launch.spec),
        )

    def max_num_seqs(self, args: Args) -> int | None:
        """The value of the flag of that name."""
        return limits.max_num_seqs(args)

    def largest_batch(self, args: Args) -> int:
        """The value of ``max-num-seqs``, or vLLM's largest default."""
        return limits.max_num_seqs(args) or limits.MAX_DEFAULT_BATCH

    def default_max_num_seqs(self, gpu: str, memory_bytes: float) -> int:
        """By vLLM's own rule."""
        return limits.default_max_num_seqs(gpu, memory_bytes)

    def max_num_batched_tokens(self, args: Args) -> int | None:
        """The value of the flag of that name."""
        return limits.max_num_batched_tokens(args)

    def gpu_memory_share(self, args: Args) -> float:
        """The value of ``gpu-memory-utilization``, or the default."""
        return limits.gpu_memory_share(args)

    def missing_model(self, log: str) -> str | None:
        """In the words of vLLM and of the hub's client."""
        return last_words.missing_model(log)


def _arguments(launch: EngineLaunch, served_name: str) -> tuple[str, ...]:
    words = arguments.arguments(launch.spec, served_name=served_name, table=launch.table)
    return (*words, *nodes.arguments(launch.spec, launch.role))
