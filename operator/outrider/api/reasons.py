"""Every condition and every reason, each with its meaning. The only place to add one.

Conditions follow the Kubernetes conventions; one that does not apply is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConditionType(StrEnum):
    """The conditions of a SpeculativeModel. Who sets it; when it is absent."""

    READY = "Ready"
    """Pods of the current spec serve, however they were launched. Set by reconcile, never absent."""
    PROGRESSING = "Progressing"
    """A rollout is under way. Set by reconcile, never absent."""
    DEGRADED = "Degraded"
    """Something needs a person. Set by reconcile; absent when nothing does."""
    CONTESTED = "Contested"
    """Another installation of the operator watches this model too. Set by reconcile; absent otherwise."""
    KNOWN_ISSUES = "KnownIssues"
    """Something is known of such a launch that does not keep it from being made. Set by reconcile; absent
    where nothing is."""
    METRICS_AVAILABLE = "MetricsAvailable"
    """Fresh measurements of every ready pod. Set by the tuning loop; absent when tuning is Off."""
    SPECULATION_EFFECTIVE = "SpeculationEffective"
    """Speculation pays at the present load. Set by the tuning loop; absent until measured."""
    ACTUATION_CONVERGED = "ActuationConverged"
    """Every ready pod confirmed the wanted table. Set by the tuning loop; absent without ready pods."""
    DRAFTER_HEALTHY = "DrafterHealthy"
    """The drafter's acceptance is plausible. Set by the tuning loop; absent until measured."""
    TUNING_ACTIVE = "TuningActive"
    """The tuner may change the table. Set by the tuning loop; absent in mode Off and without ready pods,
    unless a person or an error has something to say."""
    LAUNCH_OPTIMAL = "LaunchOptimal"
    """The engines are launched as the load asks for. Set by the tuning loop; absent where the spec lets the
    tuner neither change nor judge the launch, and until there is something to say."""


class ReadyReason(StrEnum):
    """Reasons of `ConditionType.READY`."""

    SERVING = "Serving"
    """All replicas of the current spec serve."""
    PARTIALLY_SERVING = "PartiallyServing"
    """Some replicas of the current spec serve; True, since requests are answered."""
    ROLLING_OUT = "RollingOut"
    """Pods start; none of the current spec serves yet."""
    ROLLED_BACK = "RolledBack"
    """The current spec failed; the last good revision takes the requests. See Degraded."""
    SCALED_TO_ZERO = "ScaledToZero"
    """`spec.replicas` is 0."""
    BLOCKED = "Blocked"
    """The spec cannot be carried out; see Degraded."""


class ProgressingReason(StrEnum):
    """Reasons of `ConditionType.PROGRESSING`."""

    DOWNLOADING = "Downloading"
    """Weights come onto the volume of `spec.cache`; engines of this spec start afterwards."""
    ROLLING_OUT = "RollingOut"
    """Pods of the current revision are being created or are not ready."""
    IN_PLACE = "RollingOutInPlace"
    """No node had room for one more pod, so serving pods give theirs up, one at a time."""
    COMPLETE = "Complete"
    """Every wanted pod is ready."""
    DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    """No progress within `spec.rollout.progressDeadline`."""
    BLOCKED = "Blocked"
    """Nothing is rolled out; see Degraded."""


class DegradedReason(StrEnum):
    """Reasons of `ConditionType.DEGRADED`, most specific first."""

    INVALID_SPEC = "InvalidSpec"
    """The object was stored past admission and cannot be read."""
    UNSUPPORTED = "Unsupported"
    """This engine version cannot run this method or option; the message says why."""
    CLUSTER_TOO_OLD = "ClusterTooOld"
    """This release of Kubernetes lacks what the spec asks for, or has it turned off."""
    LEADER_WORKER_SET_MISSING = "LeaderWorkerSetMissing"
    """Groups of pods need LeaderWorkerSet: its kind, its controller, or the right to make one is missing."""
    NAME_TAKEN = "NameTaken"
    """A child's name belongs to an object that Outrider does not own."""
    APPLY_REFUSED = "ApplyRefused"
    """The API server refused a child (admission, quota, RBAC, a field that it does not know)."""
    RECONCILE_FAILED = "ReconcileFailed"
    """Pass after pass fails, for a reason without a name of its own; the message has it."""
    WEIGHTS_NOT_FOUND = "WeightsNotFound"
    """The download found no such repository, bucket, folder or revision."""
    WEIGHTS_REFUSED = "WeightsRefused"
    """The hub or the bucket refuses the download: no keys, wrong ones, or terms that nobody accepted."""
    VOLUME_FULL = "VolumeFull"
    """The weights do not fit on the volume of `spec.cache`."""
    CHECKSUM_MISMATCH = "ChecksumMismatch"
    """A downloaded file has other bytes than its source says; it is fetched again."""
    DOWNLOAD_FAILED = "DownloadFailed"
    """The download ended for another cause; it goes on by itself with what is missing."""
    DRAFTER_MISMATCH = "DrafterMismatch"
    """The drafter was made for a model of other sizes; the message has both numbers."""
    WILL_NOT_FIT = "WillNotFit"
    """The weights alone are more than the memory of the GPUs that the spec selects."""
    MODEL_NOT_FOUND = "ModelNotFound"
    """The engine found no model or drafter at the given path."""
    IMAGE_PULL_FAILED = "ImagePullFailed"
    """The engine image cannot be pulled."""
    CONTAINER_NOT_CREATED = "ContainerNotCreated"
    """A container of a pod cannot be created: mostly a Secret, a ConfigMap or a key in one is missing."""
    UNSCHEDULABLE = "Unschedulable"
    """No node takes a pod."""
    VOLUME_NOT_READY = "VolumeNotReady"
    """A volume of the pod cannot be mounted."""
    ENGINE_CRASHING = "EngineCrashing"
    """The engine process ends again and again, or does not take its flags."""
    PODS_NOT_CREATED = "PodsNotCreated"
    """The API server refuses the pods (unknown service account, quota, admission)."""
    DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    """Pods did not become ready within `spec.rollout.progressDeadline`."""
    ROLLED_BACK = "RolledBack"
    """The rollout of the current spec failed; the last good revision returned."""
    LAUNCH_ORDER_UNREADABLE = "LaunchOrderUnreadable"
    """The ConfigMap `<model>-launch` cannot be read; engines are launched as the spec says."""
    NOT_TUNED = "NotTuned"
    """The tuner cannot work with this model; its engines keep the table that they have."""


class ContestReason(StrEnum):
    """Reasons of `ConditionType.CONTESTED`."""

    ON_STANDBY = "OtherInstallationOnStandby"
    """The other installation leaves the model alone as long as this one manages it."""


class AdviceReason(StrEnum):
    """Reasons of `ConditionType.KNOWN_ISSUES`."""

    LAUNCH_AFFECTED = "LaunchAffected"
    """K stays the same, or the release of the engine has a known defect that this launch may meet; the
    message has each, and what to do."""


class MetricsReason(StrEnum):
    """Reasons of `ConditionType.METRICS_AVAILABLE`."""

    FRESH = "MetricsFresh"
    """All ready pods were sampled within two scrapes."""
    PROMETHEUS_UNREACHABLE = "PrometheusUnreachable"
    """No answer: refused, DNS, timeout."""
    PROMETHEUS_ERROR = "PrometheusError"
    """An answer that is not a result: HTTP error, `status: error`, malformed or oversized body."""
    ENGINES_UNREACHABLE = "EnginesUnreachable"
    """The operator scrapes the engines itself, and none of them answered."""
    NO_SERIES = "NoSeries"
    """The source has no samples of these pods."""
    STALE = "MetricsStale"
    """The newest sample is too old."""
    COUNTER_RESET = "CounterReset"
    """An engine restarted; hold until a full window has passed."""
    CONTRADICTORY = "MetricsContradictory"
    """Values that cannot belong together."""
    UNREADABLE = "MetricsUnreadable"
    """What a pod shows of itself cannot be read, or is far too much."""


class EffectiveReason(StrEnum):
    """Reasons of `ConditionType.SPECULATION_EFFECTIVE`."""

    FASTER = "Faster"
    """The table in force beats K=0 beyond the measured noise."""
    WITHIN_NOISE = "WithinNoise"
    """The difference to K=0 is smaller than the noise."""
    SLOWER = "Slower"
    """K=0 was measured to be faster than the table in force; Auto is about to change it."""
    SOFT_OFF = "SoftOff"
    """K=0 is in force because no draft length pays at this load."""


class ActuationReason(StrEnum):
    """Reasons of `ConditionType.ACTUATION_CONVERGED`."""

    CONVERGED = "Converged"
    """Every ready pod reads back the wanted table."""
    PARTIALLY_APPLIED = "PartiallyApplied"
    """Some pods refused or did not answer; retried at the next tick."""
    ENGINE_UNREACHABLE = "EngineUnreachable"
    """No pod answered."""
    LIVE_TUNING_IMPOSSIBLE = "LiveTuningImpossible"
    """The engine says that its table cannot be changed; the message carries its reason."""


class DrafterReason(StrEnum):
    """Reasons of `ConditionType.DRAFTER_HEALTHY`: acceptance at the first position, whatever K is."""

    EXCELLENT = "AcceptanceExcellent"
    """At least 80 % of the first draft tokens are accepted."""
    GOOD = "AcceptanceGood"
    """60 to 80 %."""
    MARGINAL = "AcceptanceMarginal"
    """40 to 60 %: small K pays."""
    POOR = "AcceptancePoor"
    """Below 40 %: the drafter fits this traffic badly."""
    NOTHING_ACCEPTED = "AlmostNothingAccepted"
    """Below 5 % since the first request: the drafter is broken, or made for another model."""
    COLLAPSED = "AcceptanceCollapsed"
    """Far below its own history: check the engine's outputs first."""


class TuningReason(StrEnum):
    """Reasons of `ConditionType.TUNING_ACTIVE`."""

    TUNING = "Tuning"
    """The table follows the measurements."""
    OBSERVING = "Observing"
    """Mode Observe: decisions follow the measurements, and none is carried out."""
    PAUSED = "Paused"
    """The annotation `outrider.dev/paused` holds the table in force."""
    OVERRIDDEN = "Overridden"
    """The annotation `outrider.dev/schedule-override` sets the table until it expires."""
    ROLLED_BACK = "RolledBack"
    """The current spec failed and the last good revision serves: its own static table, and no relaunch."""
    SETTLING = "ReplicasSettling"
    """The number of ready pods has just changed: hold until the load has spread."""
    OVERRIDE_EXPIRED = "OverrideExpired"
    """The annotations of an override are there, and its end has passed: they change nothing any more."""
    ANNOTATION_REFUSED = "AnnotationRefused"
    """An annotation cannot be used and changes nothing; the message says what to do."""
    INTERNAL_ERROR = "InternalError"
    """The operator fails at this model, tick after tick; the message names the error."""


class LaunchReason(StrEnum):
    """Reasons of `ConditionType.LAUNCH_OPTIMAL`."""

    NO_BETTER_LAUNCH = "NoBetterLaunch"
    """Another launch is not known to be better."""
    DRAFTER_IDLE = "DrafterIdle"
    """The drafter hardly drafts and costs time: a launch without it would be faster."""
    DRAFTER_WOULD_PAY = "DrafterWouldPay"
    """Launched without a drafter, and at the load of now drafting would pay."""
    RELAUNCHING = "Relaunching"
    """A relaunch that the tuner ordered is under way."""
    RELAUNCH_POSTPONED = "RelaunchPostponed"
    """Another launch looks better, but the last relaunch is too fresh, or this one has failed before."""
    RELAUNCH_ROLLED_BACK = "RelaunchRolledBack"
    """The last relaunch did not end in time, or turned out slower; the launch before returns."""
    CANARY_RUNNING = "CanaryRunning"
    """One replica runs without speculation for some minutes, to be measured against."""


ConditionReason = (
    ReadyReason
    | ProgressingReason
    | DegradedReason
    | ContestReason
    | AdviceReason
    | MetricsReason
    | EffectiveReason
    | ActuationReason
    | DrafterReason
    | TuningReason
    | LaunchReason
)
"""What a condition may say of itself; nothing else is ever written."""

REASONS_OF: Mapping[ConditionType, type[ConditionReason]] = {
    ConditionType.READY: ReadyReason,
    ConditionType.PROGRESSING: ProgressingReason,
    ConditionType.DEGRADED: DegradedReason,
    ConditionType.CONTESTED: ContestReason,
    ConditionType.KNOWN_ISSUES: AdviceReason,
    ConditionType.METRICS_AVAILABLE: MetricsReason,
    ConditionType.SPECULATION_EFFECTIVE: EffectiveReason,
    ConditionType.ACTUATION_CONVERGED: ActuationReason,
    ConditionType.DRAFTER_HEALTHY: DrafterReason,
    ConditionType.TUNING_ACTIVE: TuningReason,
    ConditionType.LAUNCH_OPTIMAL: LaunchReason,
}
"""Each reason belongs to one condition, so a reason tells which one it is about."""

_CONDITION_OF = {reasons: kind for kind, reasons in REASONS_OF.items()}


def condition_of(reason: ConditionReason) -> ConditionType:
    """The condition that a reason is about."""
    return _CONDITION_OF[type(reason)]


class DecisionReason(StrEnum):
    """Reasons of the law's decisions, in `status.decisions`. Stable: users and dashboards rely on them."""

    METRICS_GAP = "MetricsGap"
    """Hold: a pod has no usable measurement, or lacks a gauge without which K must not rise."""
    NO_TRAFFIC = "NoTraffic"
    """Hold: no tokens were generated."""
    MIXED_WINDOW = "MixedWindow"
    """Hold: load or table changed inside the window, so it says nothing about one K."""
    MEASURING = "Measuring"
    """Hold: a K on trial has not been measured long enough."""
    SETTLED = "Settled"
    """Hold: the best K known is in force."""
    RECENT_CHANGE = "RecentChange"
    """Hold: another K looks better, but the last change is too fresh."""
    RATE_LIMITED = "RateLimited"
    """Hold: another K looks better, but K changed often in the last hour."""
    ACCEPTANCE_COLLAPSED = "AcceptanceCollapsed"
    """Hold: drafts fail far more often than ever before, so K must not rise."""
    ACCEPTANCE_LOW = "AcceptanceLow"
    """Hold: hardly any draft is accepted, so K must not rise."""
    KV_PRESSURE = "KVPressure"
    """Hold: the KV cache is full, so K must not rise."""
    REQUESTS_QUEUED = "RequestsQueued"
    """Hold: requests wait, so nothing is tried."""
    LATENCY_LIMIT_REACHED = "LatencyLimitReached"
    """Hold: no K keeps the latency limit, so nothing is tried."""
    NOT_A_CANDIDATE = "NotACandidate"
    """Hold: the engines were not launched with that K."""
    NO_DRAFTER = "NoDrafter"
    """Hold: the engines were launched without a drafter."""
    STATIC_FALLBACK = "StaticFallback"
    """Hold: tuning did not pay here, the static table stays for a while."""
    CALIBRATION = "Calibration"
    """Explore: a batch size without measurements."""
    PROBE = "Probe"
    """Explore: a rare look at another K."""
    BETTER_K = "BetterK"
    """Exploit: the measured gain is beyond min_gain and noise."""
    LIKELY_BETTER = "LikelyBetter"
    """Exploit: a larger K is likely better, but not beyond noise; the batch size is not settled."""
    SMALLER_K = "SmallerK"
    """Exploit: a smaller K is no slower as far as is known."""
    MOST_INFORMATIVE = "MostInformative"
    """Explore: of K that are equal as far as is known, the one that is less known takes the table."""
    LATENCY_LIMIT_EXCEEDED = "LatencyLimitExceeded"
    """Exploit: the K before breaks the latency limit."""
    CALIBRATED = "Calibrated"
    """Exploit: nothing is left to learn, or the time is up; the K in force stays."""
    OTHER_BATCH_SIZES = "OtherBatchSizes"
    """Exploit: what was learnt here changes the K of other batch sizes."""
    STATIC_FALLBACK_ENDED = "StaticFallbackEnded"
    """Exploit: the static table had its time, what was chosen rules again."""
    TRIAL_NOT_BETTER = "TrialNotBetter"
    """Roll back: the K on trial is not better."""
    WORSE_THAN_BEFORE = "WorseThanBefore"
    """Roll back: the new K turned out slower than the one before."""
    LOAD_CHANGED = "LoadChanged"
    """Roll back: the load left the batch bin of a trial."""
    TRIAL_NOT_MEASURED = "TrialNotMeasured"
    """Roll back: a trial got no measurements."""


class EventReason(StrEnum):
    """Reasons of Events, emitted on transitions only."""

    READY = "Ready"
    NOT_READY = "NotReady"
    DEGRADED = "Degraded"
    RECOVERED = "Recovered"
    ROLLING_OUT_IN_PLACE = "RollingOutInPlace"
    """A rollout goes on without a pod above the wanted number, since no node has room for one."""
    CONTESTED = "Contested"
    """Another installation of the operator came that watches this model too."""
    UNCONTESTED = "Uncontested"
    """It went."""
    ON_STANDBY = "OnStandby"
    """Told by the installation that leaves the model to another one."""
    RETUNED = "Retuned"
    WOULD_RETUNE = "WouldRetune"
    """Mode Observe: what Auto would have done; nothing was changed."""
    ACTUATION_FAILED = "ActuationFailed"
    ACTUATION_RECOVERED = "ActuationRecovered"
    METRICS_LOST = "MetricsLost"
    METRICS_RECOVERED = "MetricsRecovered"
    PAUSED = "TuningPaused"
    RESUMED = "TuningResumed"
    OVERRIDE_BEGAN = "OverrideBegan"
    OVERRIDE_ENDED = "OverrideEnded"
    ANNOTATION_REFUSED = "AnnotationRefused"
    RELAUNCHED = "Relaunched"
    """The tuner ordered another launch of the engines."""
    RELAUNCH_ROLLED_BACK = "RelaunchRolledBack"
    """The tuner takes a relaunch back."""
    RELAUNCH_ADVISED = "RelaunchAdvised"
    """Another launch would be faster, and the spec leaves it to a person."""
    CANARY_STARTED = "CanaryStarted"
    CANARY_ENDED = "CanaryEnded"
    TUNER_RESET = "TunerReset"
    """What the tuner learnt is gone, since somebody asked for it; it begins again from the static table."""
    STATE_IGNORED = "TunerStateIgnored"
    """What the tuner learnt before a restart cannot be used; it starts afresh from the table in force."""
    STATE_NOT_SAVED = "TunerStateNotSaved"
    """What the tuner learnt cannot be stored; a restart will begin afresh."""
    CPU_BUDGET_EXCEEDED = "CPUBudgetExceeded"
    """A tick or a reconcile of this model took more CPU than one model may; it is looked at less often."""
