"""Launch configurations of engines, as far as the tuner may choose them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from outrider.api.quantity import duration_seconds
from outrider.api.resource import GROUP
from outrider.api.spec import Spec
from outrider.api.text import shortened
from outrider.api.tuning import Actuation, Canary, StructuralOff, TuningMode
from outrider_protocol.schedule import Schedule

ANNOTATION = f"{GROUP}/launch"
"""Annotation of a pod whose launch differs from the spec's own: the text of its launch."""

NO_DRAFTER = "no-drafter"

LAUNCH_KEY = "launch"
CANARY_KEY = "canary"


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch configuration of a model's engines."""

    drafter: bool = True
    """False: without speculation, even if the spec has a drafter."""
    schedule: Schedule | None = None
    """Schedule at launch for engines that accept no pushed schedule; None: the static schedule."""

    def __str__(self) -> str:
        """Return ``no-drafter``, a schedule such as ``8:3,*:0``, or nothing for the spec's own launch."""
        if not self.drafter:
            return NO_DRAFTER
        return "" if self.schedule is None else str(self.schedule)

    @classmethod
    def parse(cls, text: str) -> Launch:
        """Parse the output of ``str``.

        Raises:
            ValueError: neither a schedule nor `NO_DRAFTER`.
        """
        if text == NO_DRAFTER:
            return cls(drafter=False)
        return cls(schedule=Schedule.parse(text)) if text else cls()

    @classmethod
    def of_pod(cls, annotations: Mapping[str, str]) -> Launch:
        """Return the launch of a pod from its annotations.

        Raises:
            ValueError: the annotation cannot be parsed.
        """
        return cls.parse(annotations.get(ANNOTATION, ""))


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """Launch configurations that the tuner orders."""

    launch: Launch = Launch()
    """Launch of the replicas."""
    canary: bool = False
    """True: one replica runs without speculation, as the reference of measurements."""

    def to_data(self) -> dict[str, str]:
        """Return the stored form of an order: `LAUNCH_KEY` and `CANARY_KEY`."""
        return {LAUNCH_KEY: str(self.launch), CANARY_KEY: "true" if self.canary else "false"}

    @classmethod
    def from_data(cls, data: Mapping[str, str]) -> LaunchOrder:
        """Parse the output of `to_data`; a missing key means the spec's own launch.

        Raises:
            ValueError: a value cannot be parsed; the message names the key.
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
class RelaunchPolicy:
    """The relaunches that a spec allows."""

    actuation: Actuation = Actuation.LIVE
    structural_off: StructuralOff = StructuralOff.NEVER
    canary: Canary = Canary.NEVER
    interval_seconds: float = 3600.0
    """Minimum time between two rolling restarts; a roll-back is never delayed."""
    deadline_seconds: float = 1200.0
    """Time after which a relaunch that has not ended counts as failed and is rolled back."""
    one_k: bool = False
    """True: a schedule has one K for all batch sizes, that of the current load."""

    @classmethod
    def of(cls, spec: Spec) -> RelaunchPolicy:
        """Return the policy of a spec."""
        tuning = spec.speculation.tuning
        return cls(
            actuation=tuning.actuation,
            structural_off=tuning.structural_off,
            canary=tuning.canary,
            interval_seconds=duration_seconds(tuning.relaunch_interval),
            # Pods may start one by one, each within the progress deadline.
            deadline_seconds=duration_seconds(spec.rollout.progress_deadline) * max(1, spec.replicas),
            one_k=spec.one_k,
        )

    @property
    def silent(self) -> bool:
        """True if the tuner neither changes nor judges the launch."""
        wishes = (self.actuation, self.structural_off, self.canary)
        return wishes == (Actuation.LIVE, StructuralOff.NEVER, Canary.NEVER)

    def advising(self) -> RelaunchPolicy:
        """Return the same with recommendations only."""
        never = self.structural_off is StructuralOff.NEVER
        advice = StructuralOff.NEVER if never else StructuralOff.RECOMMEND
        return replace(self, actuation=Actuation.LIVE, structural_off=advice, canary=Canary.NEVER)

    def effective(
        self, order: LaunchOrder, *, mode: TuningMode, candidates: Collection[int], replicas: int
    ) -> LaunchOrder:
        """Return the part of ``order`` that is allowed now.

        Only mode Auto allows any part. A second application changes nothing.

        candidates: all values of K that an engine may be launched with.
        """
        if mode is not TuningMode.AUTO:
            return LaunchOrder()
        launch = order.launch if self._allows(order.launch, candidates) else Launch()
        room = self.canary is Canary.ALLOW and self.actuation is Actuation.LIVE and replicas >= 2
        return LaunchOrder(launch, canary=order.canary and launch.drafter and room)

    def _allows(self, launch: Launch, candidates: Collection[int]) -> bool:
        if not launch.drafter:
            return self.structural_off is StructuralOff.ALLOW
        if launch.schedule is None:
            return True
        values = launch.schedule.values()
        one = not self.one_k or len(values) == 1
        return self.actuation is Actuation.ROLLOUT and one and values <= set(candidates)


def effective_order(spec: Spec, order: LaunchOrder) -> LaunchOrder:
    """Return the part of ``order`` that the spec allows now."""
    return RelaunchPolicy.of(spec).effective(
        order, mode=spec.tuning_mode, candidates=spec.candidates(), replicas=spec.replicas
    )
