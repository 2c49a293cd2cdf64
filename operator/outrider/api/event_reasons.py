"""The reasons of Events, with their meaning and what to do. Outrider emits an Event on a transition only."""

from __future__ import annotations

from typing import Literal

from outrider.api.reason import Need, Reason


class EventReason(Reason):
    """Reasons of Events."""

    READY = ("Ready", Need.NOTHING, "`Ready` became True.")
    NOT_READY = ("NotReady", Need.PERSON, "`Ready` became False. The note has the cause.", "Read Degraded.")
    DEGRADED = (
        "Degraded",
        Need.PERSON,
        "`Degraded` became True or has another reason. The note has the cause.",
        "Do what the reason of Degraded asks for.",
    )
    RECOVERED = ("Recovered", Need.NOTHING, "`Degraded` ended.")
    ROLLING_OUT_IN_PLACE = (
        "RollingOutInPlace",
        Need.WAIT,
        "No node has room for one more pod, so Outrider replaces serving pods one at a time.",
        "Wait. To skip the attempt with an additional pod next time, set rollout.maxSurge: 0.",
        "guide/rollouts.md",
    )
    RETUNED = (
        "Retuned",
        Need.NOTHING,
        "The tuner changed the schedule. The note names the rows and the cause.",
    )
    WOULD_RETUNE = (
        "WouldRetune",
        Need.NOTHING,
        "Mode Observe: mode Auto would have changed the schedule. Nothing was changed.",
        "To let the tuner change it, set spec.speculation.tuning.mode: Auto.",
    )
    ACTUATION_FAILED = (
        "ActuationFailed",
        Need.RETRIED,
        "`ActuationConverged` became False. Outrider retries at each tick.",
        "If it lasts, do what the reason of ActuationConverged asks for.",
    )
    ACTUATION_RECOVERED = ("ActuationRecovered", Need.NOTHING, "`ActuationConverged` became True.")
    METRICS_LOST = (
        "MetricsLost",
        Need.RETRIED,
        "`MetricsAvailable` became False. The schedule stays as it is.",
        "If it lasts, do what the reason of MetricsAvailable asks for.",
    )
    METRICS_RECOVERED = ("MetricsRecovered", Need.NOTHING, "`MetricsAvailable` became True.")
    PAUSED = ("TuningPaused", Need.NOTE, "A pause began: `outrider.dev/paused` keeps the present schedule.")
    RESUMED = ("TuningResumed", Need.NOTHING, "A pause ended.")
    OVERRIDE_BEGAN = ("OverrideBegan", Need.NOTE, "An override began and sets the schedule until it expires.")
    OVERRIDE_ENDED = (
        "OverrideEnded",
        Need.NOTHING,
        "An override expired or was removed, or had expired before it was set.",
    )
    ANNOTATION_REFUSED = (
        "AnnotationRefused",
        Need.PERSON,
        "An annotation has an invalid value and changes nothing.",
        "Write the annotation as the note says.",
    )
    RELAUNCHED = (
        "Relaunched",
        Need.WAIT,
        "The tuner relaunches the engines with another launch configuration.",
        "Wait. The condition LaunchOptimal has the progress.",
    )
    RELAUNCH_ROLLED_BACK = (
        "RelaunchRolledBack",
        Need.NOTE,
        "The tuner restores the launch configuration before the last relaunch.",
        "The note has the cause.",
    )
    RELAUNCH_ADVISED = (
        "RelaunchAdvised",
        Need.NOTE,
        "Another launch configuration would be faster, and the spec leaves the relaunch to you.",
        "Set the field that the note names.",
    )
    CANARY_STARTED = ("CanaryStarted", Need.WAIT, "One replica starts with another launch for some minutes.")
    CANARY_ENDED = ("CanaryEnded", Need.NOTHING, "The replica with another launch ends.")
    DRAFTER_PROMOTED = (
        "DrafterPromoted",
        Need.WAIT,
        "A canary tried the new drafter of the spec, and all pods get it. The note has the gain.",
        "Wait. The condition Progressing has the progress.",
    )
    DRAFTER_KEPT = (
        "DrafterKept",
        Need.PERSON,
        "A canary tried the new drafter of the spec. It was slower or did not serve, so all pods keep the "
        "one before.",
        "Do what the note says.",
    )
    TUNER_RESET = (
        "TunerReset",
        Need.NOTHING,
        "The annotation `outrider.dev/reset-tuner` changed, or the ConfigMap `<model>-tuner` was deleted. "
        "Tuning begins again from the static schedule.",
    )
    STATE_IGNORED = (
        "TunerStateIgnored",
        Need.NOTE,
        "The tuner state in the ConfigMap `<model>-tuner` cannot be used. The tuner begins without "
        "measurements, from the present schedule.",
        "Nothing, unless the object belongs to someone else: then delete or rename it.",
    )
    STATE_NOT_SAVED = (
        "TunerStateNotSaved",
        Need.PERSON,
        "The ConfigMap `<model>-tuner` cannot be written. Tuning continues; a restart would begin without "
        "measurements.",
        "Read the API server's answer in the note: quota, admission policy, RBAC or a name that is taken.",
    )
    CPU_BUDGET_EXCEEDED = (
        "CPUBudgetExceeded",
        Need.NOTE,
        "A tick took more than 0.5 s, or a reconcile more than 1 s, of CPU time. Outrider runs them less "
        "often, so that they use at most 5 % of one CPU.",
        "For a tick, split the model, or lower numSpeculativeTokens or max-num-seqs. For a reconcile, "
        "shorten podTemplate and engine.args.",
    )

    @property
    def severity(self) -> Literal["Normal", "Warning"]:
        """The type of the Event."""
        return "Warning" if self.need in (Need.PERSON, Need.RETRIED) or self in _WARNINGS else "Normal"


_WARNINGS = (
    EventReason.RELAUNCH_ROLLED_BACK,
    EventReason.STATE_IGNORED,
    EventReason.CPU_BUDGET_EXCEEDED,
)
"""Warnings that need no person."""
