"""SGLang as a `Runtime`: its answers, each from the module that knows it."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.api.engine import Engine
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.runtimes.engine_launch import EngineLaunch, Role
from outrider.runtimes.images import engine_image
from outrider.runtimes.runtime import Args, EngineContainer, EngineImage
from outrider.runtimes.sglang import adaptive, additions, control, environment, limits, methods, shutdown
from outrider.runtimes.sglang.arguments import arguments
from outrider.runtimes.sglang.flags import FLAGS
from outrider.runtimes.sglang.metrics import DIALECT
from outrider_protocol.environment import CONTROL_PORT_VARIABLE, POD_UID_VARIABLE

_SERVER = ("python3", "-m", "sglang.launch_server")
_HEALTH = "/health"
"""SGLang generates a token for it while no request runs."""
_READINESS = "/health?readiness"
"""The plugin answers 503 here while the pod drains; without it this is `_HEALTH`."""
_ENGINE_TYPES = ("inference.networking.k8s.io/engine-type", "llm-d.ai/engine-type")
"""Labels by which endpoint pickers know the metrics of an engine."""


class Sglang:
    """Implements `outrider.runtimes.runtime.Runtime`."""

    metrics = DIALECT
    flags = FLAGS
    control = staticmethod(control.control)
    owned_variables = environment.OWNED_VARIABLES
    joined_variables = environment.JOINED_VARIABLES

    flag_additions = staticmethod(additions.flag_additions)
    variable_additions = staticmethod(additions.variable_additions)
    max_num_seqs = staticmethod(limits.max_num_seqs)
    largest_batch = staticmethod(limits.largest_batch)
    missing_model = staticmethod(shutdown.missing_model)
    remedy = staticmethod(shutdown.remedy)

    def image(self, engine: Engine, images: Mapping[str, str]) -> EngineImage | None:
        """That of the spec, else the operator's for this version, else SGLang's own."""
        return engine_image(engine, images, own=f"lmsysorg/sglang:v{engine.version}")

    def unsupported_reason(self, spec: Spec, weights: WeightsStatus | None) -> str | None:  # noqa: ARG002
        """Why a release or a launch cannot be served. Admission has the methods."""
        return methods.unsupported_reason(spec)

    def settled(self, spec: Spec, weights: WeightsStatus | None) -> Spec:  # noqa: ARG002
        """The spec itself: admission refuses a K that this engine cannot change."""
        return spec

    def advice(self, spec: Spec, weights: WeightsStatus | None) -> tuple[str, ...]:  # noqa: ARG002
        """Unknown flags, and what is not counted."""
        return methods.advice(spec)

    def container(self, launch: EngineLaunch, *, served_name: str) -> EngineContainer:
        """SGLang's server, with the plugin by its entry point, or stock; workers start the same program."""
        serves = launch.role is not Role.WORKER
        controlled = serves and not launch.stock
        adapts = adaptive.configuration(launch.spec, launch.table) is not None
        return EngineContainer(
            seconds_to_end=shutdown.seconds_to_end(launch),
            runs_plugin=not launch.stock,
            command=adaptive.SHELL if adapts else _SERVER,
            arguments=arguments(launch, served_name=served_name),
            environment=environment.environment(launch),
            pod_uid_variable=POD_UID_VARIABLE if controlled else None,
            control_port_variable=CONTROL_PORT_VARIABLE if controlled else None,
            health_path=_HEALTH if serves else None,
            readiness_path=(_READINESS if controlled else _HEALTH) if serves else None,
            pre_stop=shutdown.pre_stop(launch) if serves else None,
            picker_labels=dict.fromkeys(_ENGINE_TYPES, "sglang"),
        )

    def default_max_num_seqs(self, gpu: str, memory_bytes: float) -> int:  # noqa: ARG002
        """SGLang's default with speculation, on every GPU."""
        return limits.DEFAULT_BATCH

    def max_num_batched_tokens(self, args: Args) -> None:
        """No bound: SGLang decodes in steps without prompts, whose tokens no flag limits."""

    def gpu_memory_share(self, args: Args) -> None:
        """No estimate: SGLang's share depends on the GPU and on its graphs."""
