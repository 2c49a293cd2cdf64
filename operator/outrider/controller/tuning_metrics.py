"""The ticks of each model as metrics: counters, and the estimated cost of the tuner."""

from __future__ import annotations

from math import exp

from prometheus_client import CollectorRegistry, Counter, Gauge

from outrider.controller.status_metrics import MODEL_LABELS
from outrider.controller.stored import Key
from outrider.tuning.decision import Decision, Probe
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState

_SETTLED, _CALIBRATING = "settled", "calibrating"


class TuningMetrics:
    """The series of each model, dropped with the model."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "outrider_model_decisions",
            "Ticks of the tuner, by kind and reason of the decision.",
            (*MODEL_LABELS, "kind", "reason"),
            registry=registry,
        )
        self._probe_seconds = Counter(
            "outrider_model_probe_seconds",
            "Engine time of the probes of other K that pods were ordered to run.",
            MODEL_LABELS,
            registry=registry,
        )
        self._probe_loss = Gauge(
            "outrider_model_probe_loss_ratio",
            "Estimated ratio of recent goodput spent on exploration, relative to K=0.",
            MODEL_LABELS,
            registry=registry,
        )
        self._static_gain = Gauge(
            "outrider_model_static_gain_ratio",
            "Estimated goodput of the last half hour over that of the static schedule; above 1 tuning pays.",
            MODEL_LABELS,
            registry=registry,
        )
        self._batch_size = Gauge(
            "outrider_model_batch_size",
            "Mean number of scheduled requests per engine step and pod.",
            MODEL_LABELS,
            registry=registry,
        )
        self._bins = Gauge(
            "outrider_model_batch_bins",
            "Batch bins that occurred, by state: settled or calibrating.",
            (*MODEL_LABELS, "state"),
            registry=registry,
        )

    def ticked(self, model: Key, decision: Decision | None, policy: Policy) -> None:
        """Count one decision, and show its inputs. None: the tuner did not decide."""
        # From the first tick on, so that `rate` sees the first probe.
        self._probe_seconds.labels(*model)
        self._show_batch_size(model, None if decision is None else decision.batch_size)
        if decision is None:
            return
        self._decisions.labels(*model, decision.kind.value, decision.reason.value).inc()
        state = decision.state
        self._probe_loss.labels(*model).set(state.budget.loss / policy.safety.loss_seconds)
        self._show_bins(model, state)
        ledger = state.fallback.ledger
        if ledger.weight > 0:
            self._static_gain.labels(*model).set(exp(ledger.gain / ledger.weight))

    def probed(self, model: Key, probe: Probe) -> None:
        """Count a started probe."""
        self._probe_seconds.labels(*model).inc(sum(part.seconds for part in probe.slices))

    def forget(self, model: Key) -> None:
        """Drop the series of a model."""
        of_model = dict(zip(MODEL_LABELS, model, strict=True))
        for metric in self._all:
            metric.remove_by_labels(of_model)

    def clear(self) -> None:
        """Drop the series of all models."""
        for metric in self._all:
            metric.clear()

    @property
    def _all(self) -> tuple[Counter | Gauge, ...]:
        return tuple(metric for metric in vars(self).values() if isinstance(metric, Counter | Gauge))

    def _show_batch_size(self, model: Key, batch_size: float | None) -> None:
        """Set the batch size. None removes it, because the last value no longer holds."""
        if batch_size is None:
            self._batch_size.remove_by_labels(dict(zip(MODEL_LABELS, model, strict=True)))
        else:
            self._batch_size.labels(*model).set(batch_size)

    def _show_bins(self, model: Key, state: TunerState) -> None:
        visited = [bin_state for bin_state in state.bins.values() if bin_state.visited]
        settled = sum(bin_state.settled_at is not None for bin_state in visited)
        self._bins.labels(*model, _SETTLED).set(settled)
        self._bins.labels(*model, _CALIBRATING).set(len(visited) - settled)
