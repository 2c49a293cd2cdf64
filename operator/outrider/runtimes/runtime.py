"""What an inference engine is to planner, telemetry and tuner: the questions of every runtime. Pure.

What only one runtime knows lies in its folder beside this file. Nothing outside asks which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from outrider.api.engine import Engine
from outrider.api.engine_args import Scalar
from outrider.api.json_object import Json
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.runtimes.control import EngineControl
from outrider.runtimes.engine_launch import EngineLaunch
from outrider.runtimes.flag_table import FlagTable
from outrider.runtimes.metrics import MetricsDialect

Args = Mapping[str, Scalar | list[Scalar]]
"""``spec.engine.args``: flag without dashes -> value."""


@dataclass(frozen=True, slots=True)
class EngineImage:
    """The image of an engine."""

    reference: str
    has_plugin: bool
    """Outrider's plugin is in it; else an init container brings the plugin."""


@dataclass(frozen=True, slots=True)
class EngineContainer:
    """The engine's container as far as the runtime decides it; the rest is alike for all."""

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    pod_uid_variable: str | None
    """The variable by which the engine learns the UID of its pod; None: it does not ask."""
    control_port_variable: str | None
    """The variable with the port of the control API, where that has its own; None: there is no such API."""
    health_path: str | None
    """Answers 200 once the model is loaded, for as long as the engine lives; None: it serves no port."""
    readiness_path: str | None
    """Answers 200 while new requests are welcome; None as above."""
    pre_stop: Json | None
    """Handler before SIGTERM, in the form of ``lifecycle.preStop``; None: SIGTERM comes at once."""
    seconds_to_end: int
    """What a pod gets to end: the handler, the requests that still run, and the engine itself."""
    address_variable: str | None = None
    """The variable by which the engine learns its pod's address, which other nodes need; None: no need."""
    runs_plugin: bool = False
    """The command needs the files of Outrider's plugin."""
    picker_labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of a pod in an InferencePool by which endpoint pickers know the engine and its side."""


class Runtime(Protocol):
    """One kind of inference engine."""

    @property
    def metrics(self) -> MetricsDialect:
        """Its metrics, and those of Outrider's plugin in it."""
        ...

    @property
    def flags(self) -> FlagTable:
        """The flags of its parser."""
        ...

    def control(self, spec: Spec) -> EngineControl:
        """What the operator can do with the running engines of `spec`."""
        ...

    @property
    def owned_variables(self) -> Mapping[str, str]:
        """Environment that `spec.podTemplate` must not change: another value would take the engine out of
        Outrider's control, or end it. Name -> what to do instead."""
        ...

    @property
    def joined_variables(self) -> Mapping[str, Set[str]]:
        """Those of them that are lists with commas: `spec.podTemplate` may add to them. Name -> the items
        that only Outrider adds."""
        ...

    def flag_additions(self, spec: Spec, words: Sequence[str], *, stock: bool) -> Iterable[tuple[str, str]]:
        """The arguments of an engine that no field of the spec says, and why they are there."""
        ...

    def variable_additions(self, names: Sequence[str]) -> Iterable[tuple[str, str]]:
        """The variables of an engine that the runtime sets, and why."""
        ...

    def image(self, engine: Engine, images: Mapping[str, str]) -> EngineImage | None:
        """The image of an engine; None: there is none. images: the operator's, by version."""
        ...

    def unsupported_reason(self, spec: Spec, weights: WeightsStatus | None) -> str | None:
        """Why this engine cannot do what the spec wants, with a remedy; None when it can.

        weights: what was downloaded, where it is known.
        """
        ...

    def settled(self, spec: Spec, weights: WeightsStatus | None) -> Spec:
        """The spec as engines can be launched: with one K where they cannot change it after all."""
        ...

    def advice(self, spec: Spec, weights: WeightsStatus | None) -> tuple[str, ...]:
        """What is known to go wrong or slower with such a launch, or probably not meant, and what to do; one
        sentence each."""
        ...

    def container(self, launch: EngineLaunch, *, served_name: str) -> EngineContainer:
        """The container of one launch.

        Raises:
            ValueError: the arguments contradict each other; the message names the field.
        """
        ...

    def max_num_seqs(self, args: Args) -> int | None:
        """The largest batch of an engine with these arguments; None where it is left to the engine.

        Raises:
            ValueError: the argument is out of range; the message names the field.
        """
        ...

    def largest_batch(self, args: Args) -> int:
        """The largest batch that an engine with these arguments may have, on whatever machine it starts.

        Raises:
            ValueError: as `max_num_seqs`.
        """
        ...

    def default_max_num_seqs(self, gpu: str, memory_bytes: float) -> int:
        """The largest batch that an engine takes by default on a GPU of this name and memory."""
        ...

    def max_num_batched_tokens(self, args: Args) -> int | None:
        """The token budget of one step; None where it is left to the engine.

        Raises:
            ValueError: the argument is out of range; the message names the field.
        """
        ...

    def gpu_memory_share(self, args: Args) -> float | None:
        """Ratio of each GPU's memory that an engine with these arguments takes; None: Outrider has no
        estimate of this engine's memory and speed.

        Raises:
            ValueError: the argument is out of range; the message names the field.
        """
        ...

    def remedy(self, cause: str) -> str | None:
        """What Outrider did and what to change, as sentences without the last stop; None where unknown.

        ``cause``: the line with which the engine ended.
        """
        ...

    def missing_model(self, log: str) -> str | None:
        """The absolute path at which the engine found no model or drafter; None where it ended otherwise.

        ``log``: the last 2 KiB of what the engine wrote.
        """
        ...
