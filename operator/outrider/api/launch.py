"""Launch configurations of engines, as far as the tuner may choose them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from outrider.api.quantity import duration_seconds
from outrider.api.resource import GROUP
from outrider.api.spec import Spec
from outrider.api.speculation_fields import Verification
from outrider.api.text import shortened
from outrider.api.tuning import Actuation, Canary, StructuralOff, TuningMode
from outrider_protocol.schedule import Schedule

ANNOTATION = f"{GROUP}/launch"
"""Annotation of a pod whose launch differs from the spec's own: the text of its launch."""

NO_DRAFTER = "no-drafter"
ADAPTIVE = "adaptive"

_OWN = "spec"
"""Text of a canary with the spec's own launch."""

LAUNCH_KEY = "launch"
CANARY_KEY = "canary"
DRAFTER_KEY = "drafter"

_PROMOTE, _RETURN = "promote", "return"
_LONGEST_WHY = 400


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch configuration of a model's engines."""

    drafter: bool = True
    """False: without speculation, even if the spec has a drafter."""
    adaptive: bool = False
    """True: with adaptive verification, where the spec leaves that to the tuner (`verification: Auto`)."""
    schedule: Schedule | None = None
    """Schedule at launch for engines that accept no pushed schedule; None: the static schedule."""

    def __str__(self) -> str:
        """Return ``no-drafter``, ``adaptive``, a schedule such as ``8:3,*:0``, or "" for the spec's own."""
        if not self.drafter:
            return NO_DRAFTER
        if self.adaptive:
            return ADAPTIVE
        return "" if self.schedule is None else str(self.schedule)

    @classmethod
    def parse(cls, text: str) -> Launch:
        """Parse the output of ``str``.

        Raises:
            ValueError: neither a schedule nor `NO_DRAFTER` nor `ADAPTIVE`.
        """
        if text == NO_DRAFTER:
            return cls(drafter=False)
        if text == ADAPTIVE:
            return cls(adaptive=True)
        return cls(schedule=Schedule.parse(text)) if text else cls()

    @classmethod
    def of_pod(cls, annotations: Mapping[str, str]) -> Launch:
        """Return the launch of a pod from its annotations.

        Raises:
            ValueError: the annotation cannot be parsed.
        """
        return cls.parse(annotations.get(ANNOTATION, ""))


class TrialStage(StrEnum):
    """The stage of the trial of a new drafter."""

    COMPARING = "comparing"
    """A canary has the new drafter, and the replicas have the one before."""
    PROMOTED = "promoted"
    """The replicas get the new drafter."""
    RETURNED = "returned"
    """The replicas keep the drafter before."""


@dataclass(frozen=True, slots=True)
class DrafterTrial:
    """The trial of the spec's drafter, where the spec changed nothing else."""

    spec: str
    """Revision of the spec's pods."""
    stage: TrialStage = TrialStage.COMPARING
    drafter: str = ""
    """Address of the new drafter."""
    why: str = ""
    """Why the replicas keep the drafter before; "" in another stage."""


@dataclass(frozen=True, slots=True)
class DrafterVerdict:
    """The result of the trial of a drafter."""

    spec: str
    """Revision of the spec's pods."""
    promoted: bool
    why: str = ""

    def __str__(self) -> str:
        """Return ``promote <spec>: <why>`` or ``return <spec>: <why>``."""
        return f"{_PROMOTE if self.promoted else _RETURN} {self.spec}: {self.why}"

    @classmethod
    def parse(cls, text: str) -> DrafterVerdict:
        """Parse the output of ``str``.

        Raises:
            ValueError: it is not one.
        """
        head, _, why = text.partition(": ")
        verb, _, spec = head.partition(" ")
        if verb not in (_PROMOTE, _RETURN) or not spec:
            raise ValueError(f"{shortened(text, 60)!r} is neither {_PROMOTE} nor {_RETURN} with a revision")
        return cls(spec, verb == _PROMOTE, shortened(why, _LONGEST_WHY))


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """Launch configurations that the tuner orders."""

    launch: Launch = Launch()
    """Launch of the replicas."""
    canary: Launch | None = None
    """Launch of one replica, to be measured against the others; None: no such replica."""
    drafter: DrafterVerdict | None = None
    """What the replicas do after the trial of a drafter; None without a result."""

    def to_data(self) -> dict[str, str]:
        """Return the stored form of an order: `LAUNCH_KEY`, `CANARY_KEY`, and `DRAFTER_KEY` with a result."""
        data = {LAUNCH_KEY: str(self.launch), CANARY_KEY: _canary_text(self.canary)}
        return data if self.drafter is None else {**data, DRAFTER_KEY: str(self.drafter)}

    @classmethod
    def from_data(cls, data: Mapping[str, str]) -> LaunchOrder:
        """Parse the output of `to_data`; a missing key means the spec's own launch.

        Raises:
            ValueError: a value cannot be parsed; the message names the key.
        """
        text = data.get(CANARY_KEY, "false")
        if text not in _CANARIES:
            known = ", ".join(_CANARIES)
            raise ValueError(f"{CANARY_KEY}: {shortened(text, 60)!r} is none of {known}")
        try:
            launch = Launch.parse(data.get(LAUNCH_KEY, ""))
        except ValueError as error:
            raise ValueError(f"{LAUNCH_KEY}: {error}") from error
        result = data.get(DRAFTER_KEY, "")
        try:
            return cls(launch, _CANARIES[text], DrafterVerdict.parse(result) if result else None)
        except ValueError as error:
            raise ValueError(f"{DRAFTER_KEY}: {error}") from error


_CANARIES: Mapping[str, Launch | None] = {
    "false": None,
    "true": Launch(drafter=False),
    ADAPTIVE: Launch(adaptive=True),
    _OWN: Launch(),
}
"""Canary by its text in an order."""


def _canary_text(canary: Launch | None) -> str:
    return next(text for text, launch in _CANARIES.items() if launch == canary)


@dataclass(frozen=True, slots=True)
class RelaunchPolicy:
    """The relaunches that a spec allows."""

    actuation: Actuation = Actuation.LIVE
    structural_off: StructuralOff = StructuralOff.NEVER
    canary: Canary = Canary.NEVER
    compares: bool = False
    """True: the tuner compares fixed with adaptive verification, and launches the better one."""
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
            compares=spec.speculation.verification is Verification.AUTO,
            interval_seconds=duration_seconds(tuning.relaunch_interval),
            # Pods may start one by one, each within the progress deadline.
            deadline_seconds=duration_seconds(spec.rollout.progress_deadline) * max(1, spec.replicas),
            one_k=spec.one_k,
        )

    @property
    def silent(self) -> bool:
        """True if the tuner neither changes nor judges the launch."""
        wishes = (self.actuation, self.structural_off, self.canary, self.compares)
        return wishes == (Actuation.LIVE, StructuralOff.NEVER, Canary.NEVER, False)

    def advising(self) -> RelaunchPolicy:
        """Return the same with recommendations only."""
        never = self.structural_off is StructuralOff.NEVER
        advice = StructuralOff.NEVER if never else StructuralOff.RECOMMEND
        return replace(
            self, actuation=Actuation.LIVE, structural_off=advice, canary=Canary.NEVER, compares=False
        )

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
        canary = order.canary if replicas >= 2 and self._measures(order.canary, launch) else None
        return LaunchOrder(launch, canary, order.drafter if self.tries_drafters(mode, replicas) else None)

    def tries_drafters(self, mode: TuningMode, replicas: int) -> bool:
        """Whether a new drafter of the spec is first compared with the one before."""
        allowed = self.canary is Canary.ALLOW and self.actuation is Actuation.LIVE
        return allowed and mode is TuningMode.AUTO and replicas >= 2

    def _measures(self, canary: Launch | None, launch: Launch) -> bool:
        """Whether a canary may be measured beside replicas of ``launch``."""
        if canary is None or not launch.drafter or self.actuation is not Actuation.LIVE:
            return False
        if not canary.drafter:
            return self.canary is Canary.ALLOW
        return self.compares and canary.adaptive is not launch.adaptive

    def _allows(self, launch: Launch, candidates: Collection[int]) -> bool:
        if not launch.drafter:
            return self.structural_off is StructuralOff.ALLOW
        if launch.adaptive:
            return self.compares
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
