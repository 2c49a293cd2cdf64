"""Ask one pod for a probe, after its table was confirmed. What goes wrong never stops the tick."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.controller.fleet import EnginePod
from outrider.controller.tune.actuation import PushReport
from outrider.engine.client import EngineClient, ProbeOrder
from outrider.engine.errors import EngineDefect, EngineError, ProbeRunning
from outrider.tuning.decision import Probe

log = logging.getLogger(__name__)

_SHARE_OF_TICK = 0.95
"""A probe of a batch bin that the load has left would keep the next one waiting."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What became of one wish for a probe. ``error`` None: it runs."""

    probe: Probe
    error: EngineError | None

    @property
    def failed(self) -> bool:
        """It does not run, and not because another one does."""
        return self.error is not None and not isinstance(self.error, ProbeRunning)

    def __str__(self) -> str:
        """``probe of K 1, 0 at batch 7-12 on default/m-1: timeout``."""
        lengths = ", ".join(str(part.num_speculative_tokens) for part in self.probe.slices)
        bin_ = f"{self.probe.low}+" if self.probe.high is None else f"{self.probe.low}-{self.probe.high}"
        return f"probe of K {lengths} at batch {bin_} on {self.probe.pod}: {self.error or 'runs'}"


async def start_probe(
    engines: EngineClient,
    probe: Probe,
    *,
    id: str,  # noqa: A002 - the contract's name
    namespace: str,
    pods: Sequence[EnginePod],
    push: PushReport,
    term: int,
    tick_seconds: float,
) -> ProbeReport | None:
    """Order the probe if its pod confirmed the table of this tick; None where it did not.

    tick_seconds: until the next tick, by which the probe has ended whatever came of it.
    """
    confirmed = {f"{namespace}/{outcome.pod}" for outcome in push.confirmed}
    pod = next((pod for pod in pods if f"{namespace}/{pod.name}" == probe.pod), None)
    if pod is None or probe.pod not in confirmed:
        return None
    order = ProbeOrder(
        id=id,
        probe=probe,
        term=term,
        epoch=push.epoch,
        deadline_seconds=_SHARE_OF_TICK * tick_seconds,
    )
    try:
        await engines.probe(pod.address, order)
    except EngineError as error:
        return ProbeReport(probe, error)
    except Exception as error:  # supervision: what the tick pushed must not be forgotten over a probe
        log.exception("probe of %s failed", probe.pod)
        return ProbeReport(probe, EngineDefect(error))
    return ProbeReport(probe, None)
