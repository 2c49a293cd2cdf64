"""The reasons of the conditions that the tuning loop sets, with their meaning and what to do."""

from __future__ import annotations

from outrider.api.reason import Need, Reason


class MetricsReason(Reason):
    """Reasons of `ConditionType.METRICS_AVAILABLE`."""

    FRESH = ("MetricsFresh", Need.NOTHING, "Every ready pod was sampled within two scrapes.")
    PROMETHEUS_UNREACHABLE = (
        "PrometheusUnreachable",
        Need.RETRIED,
        "Prometheus does not answer: the connection was refused, its name is unknown, or the request timed "
        "out.",
        "Check prometheus.url and the network policies.",
    )
    PROMETHEUS_ERROR = (
        "PrometheusError",
        Need.PERSON,
        "Prometheus answers with an HTTP error, with `status: error`, or with a body that is malformed or "
        "too large.",
        "Check its credentials; the message has the HTTP status.",
    )
    ENGINES_UNREACHABLE = (
        "EnginesUnreachable",
        Need.RETRIED,
        "With `metrics.source: PodScrape` the operator scrapes the engines, and none of them answers.",
        "Check network policies between the operator and the engine pods.",
    )
    NO_SERIES = (
        "NoSeries",
        Need.RETRIED,
        "The metrics source has no samples of the pods in the message. One such pod holds the schedule of "
        "the whole model.",
        "Check that Prometheus has each of these pods as a target; with networkPolicy.enabled, name "
        "Prometheus in networkPolicy.clients. Delete a pod that cannot be measured.",
        "guide/install.md",
    )
    STALE = (
        "MetricsStale",
        Need.RETRIED,
        "The newest sample of a pod is too old.",
        "Check the health of the target in Prometheus, and the clocks.",
    )
    COUNTER_RESET = (
        "CounterReset",
        Need.WAIT,
        "An engine restarted. Outrider holds until a full window of samples has passed.",
        "Wait.",
    )
    CONTRADICTORY = (
        "MetricsContradictory",
        Need.PERSON,
        "Values of a pod contradict each other. The message has the sums.",
        "Check that Prometheus scrapes the pod once. If the message names outrider: metrics, the plugin may "
        "have stopped counting; the engine's state lists its problems.",
    )
    UNREADABLE = (
        "MetricsUnreadable",
        Need.PERSON,
        "A pod's metrics cannot be parsed or are too many. Other pods and models are measured as usual.",
        "Look at the /metrics of the pod that the message names, and at what runs in the pod.",
        "reference/metrics.md",
    )


class EffectiveReason(Reason):
    """Reasons of `ConditionType.SPECULATION_EFFECTIVE`."""

    FASTER = ("Faster", Need.NOTHING, "The present schedule is faster than K=0, beyond the measured noise.")
    WITHIN_NOISE = ("WithinNoise", Need.NOTE, "The difference to K=0 is smaller than the measured noise.")
    SLOWER = (
        "Slower",
        Need.WAIT,
        "The present schedule is measured to be slower than K=0. Mode Auto changes it at a later tick; mode "
        "Observe does not.",
        "In mode Auto, wait. In mode Observe, set spec.speculation.tuning.mode: Auto.",
    )
    SOFT_OFF = (
        "SoftOff",
        Need.NOTE,
        "K is 0 because no draft length pays at this load, or none keeps the target of the pause between "
        "outputs. The drafter stays loaded.",
    )


class ActuationReason(Reason):
    """Reasons of `ConditionType.ACTUATION_CONVERGED`."""

    CONVERGED = ("Converged", Need.NOTHING, "Every ready pod confirmed the pushed schedule.")
    PARTIALLY_APPLIED = (
        "PartiallyApplied",
        Need.RETRIED,
        "Some pods refused the schedule or did not answer. Outrider retries at the next tick.",
        "Look at the pods that the message names. Unauthorized means that the pod does not accept the "
        "operator's signature.",
        "reference/control-api.md",
    )
    ENGINE_UNREACHABLE = (
        "EngineUnreachable",
        Need.RETRIED,
        "No pod answered. Outrider retries at the next tick.",
        "Check network policies between the operator and the engine pods.",
    )
    LIVE_TUNING_IMPOSSIBLE = (
        "LiveTuningImpossible",
        Need.PERSON,
        "The engine cannot change its schedule while it runs. The message has its reason.",
        'Set spec.speculation.tuning.mode: "Off", or launch the engine as the message says.',
    )


class DrafterReason(Reason):
    """Reasons of `ConditionType.DRAFTER_HEALTHY`: the acceptance rate at the first position."""

    EXCELLENT = ("AcceptanceExcellent", Need.NOTHING, "At least 80 % of the first draft tokens are accepted.")
    GOOD = ("AcceptanceGood", Need.NOTHING, "60 to 80 % of the first draft tokens are accepted.")
    MARGINAL = (
        "AcceptanceMarginal",
        Need.NOTE,
        "40 to 60 % of the first draft tokens are accepted, so a small K pays.",
        "Another drafter may gain more.",
    )
    POOR = (
        "AcceptancePoor",
        Need.NOTE,
        "Less than 40 % of the first draft tokens are accepted, so Outrider drafts less.",
        "To gain more, use a drafter that was trained on such text.",
    )
    NOTHING_ACCEPTED = (
        "AlmostNothingAccepted",
        Need.PERSON,
        "Less than 5 % of the first draft tokens were accepted since the first request. Not given for "
        "n-gram and suffix, which find little in prose.",
        "Check spec.speculation.drafter, its revision and its vocabulary: the drafter is broken or made for "
        "another model.",
    )
    COLLAPSED = (
        "AcceptanceCollapsed",
        Need.PERSON,
        "The acceptance rate is far below its own history. It stays, with K=0 too, until drafts are "
        "accepted again. If they never are, they become the history within hours.",
        "Run `outrider verify MODEL`: it compares answers with and without speculation.",
        "guide/verify.md",
    )


class TuningReason(Reason):
    """Reasons of `ConditionType.TUNING_ACTIVE`."""

    TUNING = ("Tuning", Need.NOTHING, "The tuner changes the schedule by its measurements.")
    OBSERVING = (
        "Observing",
        Need.NOTE,
        "Mode Observe: the tuner decides and changes nothing. The message names the K that were never "
        "measured.",
        "To let the tuner change the schedule, set spec.speculation.tuning.mode: Auto.",
    )
    PAUSED = (
        "Paused",
        Need.NOTE,
        "The annotation `outrider.dev/paused` keeps the present schedule. The tuner starts no probe.",
        "To resume, remove the annotation.",
    )
    OVERRIDDEN = (
        "Overridden",
        Need.NOTE,
        "The annotation `outrider.dev/schedule-override` sets the schedule until it expires.",
        "To end the override earlier, remove the annotation.",
    )
    ROLLED_BACK = (
        "RolledBack",
        Need.PERSON,
        "Tuning is off, because the spec was rolled back. The last good revision serves with its static "
        "schedule.",
        "Correct the spec; the message of Degraded has the cause.",
    )
    SETTLING = (
        "ReplicasSettling",
        Need.WAIT,
        "The number of ready pods changed. The tuner holds for `tuning.scaleSettle` seconds, until the load "
        "has spread.",
        "Wait. If it lasts, look for a pod whose readiness flaps.",
    )
    OVERRIDE_EXPIRED = (
        "OverrideExpired",
        Need.NOTE,
        "The annotations of an override are still there, and its end has passed. They change nothing.",
        "Remove both annotations, or set a later end.",
    )
    ANNOTATION_REFUSED = (
        "AnnotationRefused",
        Need.PERSON,
        "An annotation has an invalid value and changes nothing.",
        "Write the annotation as the message says.",
    )
    INTERNAL_ERROR = (
        "InternalError",
        Need.PERSON,
        "Three ticks of this model in a row failed inside the operator. Engines serve, with the static "
        "schedule once the last push expires.",
        "Look for `tick of NAMESPACE/NAME failed` in the operator's log and report it. The message names "
        "the error.",
    )


class LaunchReason(Reason):
    """Reasons of `ConditionType.LAUNCH_OPTIMAL`."""

    NO_BETTER_LAUNCH = ("NoBetterLaunch", Need.NOTHING, "No better launch configuration is known.")
    VERSION_DIFFERS = (
        "EngineVersionDiffers",
        Need.PERSON,
        "Engines run another release than `spec.engine.version` names. Outrider chose their flags "
        "and the way to change K for the named one.",
        "Set spec.engine.version to the release of the image, or take an image of the named release.",
        "guide/engine-image.md",
    )
    DRAFTER_IDLE = (
        "DrafterIdle",
        Need.NOTE,
        "For some time drafting was slower than a launch without the drafter would have been.",
        "With structuralOff: Recommend, set tuning.structuralOff: Allow, or speculation.method: none. With "
        "Allow, wait.",
    )
    DRAFTER_WOULD_PAY = (
        "DrafterWouldPay",
        Need.WAIT,
        "The engines run without a drafter, and drafting would pay at the present load.",
        "Wait. Outrider relaunches with the drafter if that lasts.",
    )
    RELAUNCHING = (
        "Relaunching",
        Need.WAIT,
        "The tuner relaunches the engines with another launch configuration.",
        "Wait, or read the message of Progressing.",
    )
    RELAUNCH_POSTPONED = (
        "RelaunchPostponed",
        Need.WAIT,
        "A relaunch would help but is postponed: the last one was too recent, or this configuration failed "
        "before.",
        "Wait. To relaunch sooner, lower tuning.relaunchInterval; the message has the time.",
    )
    RELAUNCH_ROLLED_BACK = (
        "RelaunchRolledBack",
        Need.NOTE,
        "The last relaunch did not end in time or was slower. Outrider restores the launch configuration "
        "before it.",
        "The message has the numbers. If pods did not become ready, look at them.",
    )
    CANARY_RUNNING = (
        "CanaryRunning",
        Need.WAIT,
        "One replica runs without speculation, or with the other verification, for 15 minutes at most, or "
        "with a new drafter for an hour at most. Outrider measures the others against it.",
        "Wait.",
    )
    NOT_COMPARED = (
        "NotCompared",
        Need.NOTE,
        "`verification` is Auto or `tuning.canary` is Allow, and one replica alone cannot be compared. A new "
        "drafter is rolled out without a comparison.",
        "Set replicas: 2 or more. Or set verification to Fixed or Adaptive, and canary to Never.",
    )
    DRAFTER_KEPT = (
        "DrafterKept",
        Need.PERSON,
        "A canary tried the new drafter of the spec. It was slower or did not serve, so all pods keep the "
        "one before.",
        "Do what the message says.",
        "guide/new-drafter.md",
    )
    ADAPTIVE_UNAVAILABLE = (
        "AdaptiveUnavailable",
        Need.NOTE,
        "`verification` is Auto, and vLLM cannot verify adaptively on this GPU with this model. Engines keep "
        "fixed verification.",
        "The message has the cause. Set engine.args.attention-backend: TRITON_ATTN, or select a GPU such as "
        "H100. To end the comparisons, set verification: Fixed.",
    )


class SLOReason(Reason):
    """Reasons of `ConditionType.SLO_KEPT`."""

    KEPT = ("TargetsKept", Need.NOTHING, "Every latency target was kept in the last two minutes.")
    INTER_TOKEN_LATENCY = (
        "InterTokenLatencyAboveLimit",
        Need.PERSON,
        "The pause between two outputs exceeds the limit of tuning.slo. The tuner uses a K "
        "that keeps it. If every K breaks it, it uses the K with the shortest steps.",
        "Do what the message says: more replicas, a smaller max-num-seqs, or a higher limit.",
        "guide/tuning.md",
    )
    TIME_TO_FIRST_TOKEN = (
        "TimeToFirstTokenAboveLimit",
        Need.PERSON,
        "The time to the first token exceeds the limit of tuning.slo. K does not change it.",
        "Do what the message says: more replicas while requests wait, or else shorter prompts.",
        "guide/tuning.md",
    )
    BETWEEN_EDGES = (
        "LimitBetweenBuckets",
        Need.NOTE,
        "The percentile and the limit lie in the same bucket of the engine's histogram, so Outrider cannot "
        "compare them.",
        "Set the limit to an edge of the bucket, which the message names.",
    )
    TOO_FEW = (
        "TooFewLatencies",
        Need.NOTE,
        "Fewer requests than the percentile needs ran in the last two minutes.",
        "Wait for traffic, or choose a lower percentile.",
    )
    NO_HISTOGRAM = (
        "NoHistogram",
        Need.PERSON,
        "The metrics source has no histogram of this latency. The tuner limits K by its estimate of the "
        "step times.",
        "Keep the engines' series whose names end in _bucket; a relabelling rule may drop them.",
        "reference/metrics.md",
    )
