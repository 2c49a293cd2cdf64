"""How engines are started, as far as tuning may decide it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from outrider.api.resource import GROUP
from outrider.api.schedule import Schedule
from outrider.api.spec import Spec
from outrider.api.speculation import Actuation, Canary, StructuralOff, TuningMode
from outrider.api.text import shortened

ANNOTATION = f"{GROUP}/launch"
"""On a pod that was started otherwise than the spec alone says: the text of its launch."""

NO_DRAFTER = "no-drafter"

LAUNCH_KEY = "launch"
CANARY_KEY = "canary"


@dataclass(frozen=True, slots=True)
class Launch:
    """One way to start the engines of a model."""

    drafter: bool = True
    """False: without speculation, whatever the spec says."""
    schedule: Schedule | None = None
    """The table that engines are started with where none can be pushed; None: the spec's own."""

    def __str__(self) -> str:
        """``no-drafter``, a table such as ``8:3,*:0``, or nothing for the spec's own launch."""
        if not self.drafter:
            return NO_DRAFTER
        return "" if self.schedule is None else str(self.schedule)

    @classmethod
    def parse(cls, text: str) -> Launch:
        """The inverse of ``str``.

        Raises:
            ValueError: neither a table nor `NO_DRAFTER`.
        """
        if text == NO_DRAFTER:
            return cls(drafter=False)
        return cls(schedule=Schedule.parse(text)) if text else cls()

    @classmethod
    def of_pod(cls, annotations: Mapping[str, str]) -> Launch:
        """How a pod was started.

        Raises:
            ValueError: the annotation is unreadable.
        """
        return cls.parse(annotations.get(ANNOTATION, ""))


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """What the tuner wants of the engines' launch."""

    launch: Launch = Launch()
    """For the replicas."""
    canary: bool = False
    """One of the replicas is started without speculation, to be measured against."""

    def to_data(self) -> dict[str, str]:
        """The form in which an order is stored: `LAUNCH_KEY` and `CANARY_KEY`."""
        return {LAUNCH_KEY: str(self.launch), CANARY_KEY: "true" if self.canary else "false"}

    @classmethod
    def from_data(cls, data: Mapping[str, str]) -> LaunchOrder:
        """The inverse of `to_data`; a missing key is the spec's own launch.

        Raises:
            ValueError: unreadable; the message names the key.
        """
        canary = data.get(CANARY_KEY, "false")
        if canary not in ("true", "false"):
            raise ValueError(f"{CANARY_KEY}: {shortened(canary, 60)!r} is neither true nor false")
        try:
            launch = Launch.parse(data.get(LAUNCH_KEY, ""))
        except ValueError as error:
            raise ValueError(f"{LAUNCH_KEY}: {error}") from error
        return cls(launch, canary == "true")


@dataclass(frozen=True, slots=True)
class LaunchLimits:
    """What a spec leaves to the tuner's orders."""

    mode: TuningMode
    actuation: Actuation
    structural_off: StructuralOff
    canary: Canary
    candidates: Collection[int]
    """Every K that an engine may be launched with."""
    replicas: int
    one_k: bool = False
    """A table has one K for all batch sizes."""

    @classmethod
    def of(cls, spec: Spec) -> LaunchLimits:
        """Of a spec as it stands."""
        tuning = spec.speculation.tuning
        return cls(
            mode=spec.tuning_mode,
            actuation=tuning.actuation,
            structural_off=tuning.structural_off,
            canary=tuning.canary,
            candidates=spec.candidates(),
            replicas=spec.replicas,
            one_k=spec.one_k,
        )

    def effective(self, order: LaunchOrder) -> LaunchOrder:
        """The part of ``order`` that holds; the rest was allowed once and is ignored.

        Nothing holds unless the mode is Auto. Applied twice it changes nothing more.
        """
        if self.mode is not TuningMode.AUTO:
            return LaunchOrder()
        launch = order.launch if self._allows(order.launch) else Launch()
        return LaunchOrder(launch, canary=order.canary and launch.drafter and self._has_room_for_a_canary)

    def _allows(self, launch: Launch) -> bool:
        if not launch.drafter:
            return self.structural_off is StructuralOff.ALLOW
        if launch.schedule is None:
            return True
        values = launch.schedule.values()
        one = not self.one_k or len(values) == 1
        return self.actuation is Actuation.ROLLOUT and one and values <= set(self.candidates)

    @property
    def _has_room_for_a_canary(self) -> bool:
        return self.canary is Canary.ALLOW and self.actuation is Actuation.LIVE and self.replicas >= 2
