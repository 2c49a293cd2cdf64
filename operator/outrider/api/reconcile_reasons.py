"""The reasons of the conditions that the reconciler sets, with their meaning and what to do."""

from __future__ import annotations

from outrider.api.reason import Need, Reason


class ReadyReason(Reason):
    """Reasons of `ConditionType.READY`."""

    SERVING = ("Serving", Need.NOTHING, "All replicas of the current spec serve.")
    PARTIALLY_SERVING = (
        "PartiallyServing",
        Need.WAIT,
        "Some replicas of the current spec serve. Ready is True, because requests are answered.",
        "Wait. If it lasts, read the messages of Progressing and Degraded.",
    )
    ROLLING_OUT = (
        "RollingOut",
        Need.WAIT,
        "Pods of the current spec start, and none of them serves yet.",
        "Wait. If it lasts, read the message of Degraded.",
    )
    ROLLED_BACK = (
        "RolledBack",
        Need.PERSON,
        "The current spec failed. The last good revision answers the requests.",
        "Correct the spec; the message of Degraded has the cause.",
        "guide/rollouts.md",
    )
    SCALED_TO_ZERO = ("ScaledToZero", Need.NOTE, "`spec.replicas` is 0.", "To serve, raise spec.replicas.")
    BLOCKED = (
        "Blocked",
        Need.PERSON,
        "Outrider cannot carry out the spec, so no pod of it starts.",
        "Correct what the message of Degraded names.",
    )


class ProgressingReason(Reason):
    """Reasons of `ConditionType.PROGRESSING`."""

    DOWNLOADING = (
        "Downloading",
        Need.WAIT,
        "A Job downloads weights to the volume of `spec.cache`. Engines of this spec start when it ends.",
        "Wait. The message has the progress.",
    )
    ROLLING_OUT = (
        "RollingOut",
        Need.WAIT,
        "Pods of the current revision are being created or are not ready. The message says if several pods "
        "download the same weights, or if GPU memory is likely short.",
        "Wait. To download weights once for all replicas, set spec.cache.",
        "guide/plan.md",
    )
    IN_PLACE = (
        "RollingOutInPlace",
        Need.WAIT,
        "No node has room for one more pod, so Outrider replaces serving pods one at a time.",
        "Wait. To skip the attempt with an additional pod next time, set rollout.maxSurge: 0.",
        "guide/rollouts.md",
    )
    COMPARING_DRAFTERS = (
        "ComparingDrafters",
        Need.WAIT,
        "One pod has the new drafter of the spec, and the others have the one before. Outrider compares both "
        "for 15 minutes, and for up to an hour with little traffic.",
        "Wait. To give the new drafter to all pods at once, set tuning.canary: Never.",
        "guide/new-drafter.md",
    )
    WAITING_FOR_KEY = (
        "WaitingForKey",
        Need.WAIT,
        "Pods of `spec.target` have not read the key yet that Outrider made for this object.",
        "Wait. The kubelet brings a new key into a running pod within two minutes.",
        "guide/running-pods.md",
    )
    COMPLETE = ("Complete", Need.NOTHING, "Every pod that the spec asks for is ready.")
    DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        Need.PERSON,
        "No pod became ready within `spec.rollout.progressDeadline`.",
        "Read the message of Degraded.",
    )
    BLOCKED = (
        "Blocked",
        Need.PERSON,
        "Outrider rolls out nothing.",
        "Correct what the message of Degraded names.",
    )


class DegradedReason(Reason):
    """Reasons of `ConditionType.DEGRADED`, most specific first."""

    INVALID_SPEC = (
        "InvalidSpec",
        Need.PERSON,
        "The spec has a mistake that admission cannot see, or was stored before the present rules.",
        "Correct the field that the message names.",
    )
    UNSUPPORTED = (
        "Unsupported",
        Need.PERSON,
        "This engine version cannot run this method or option.",
        "Set spec.engine.version to one that the message names, or change the option.",
        "reference/methods.md",
    )
    CLUSTER_TOO_OLD = (
        "ClusterTooOld",
        Need.PERSON,
        "This release of Kubernetes lacks a feature that the spec asks for, or has the feature turned off.",
        "Upgrade Kubernetes or turn on the feature gate that the message names, or remove the field.",
    )
    LEADER_WORKER_SET_MISSING = (
        "LeaderWorkerSetMissing",
        Need.PERSON,
        "`parallelism.nodes` is above 1, and LeaderWorkerSet, its controller or the operator's right to use "
        "it is missing.",
        "Install LeaderWorkerSet and set leaderWorkerSets.enabled: true in Outrider's chart, or set "
        "spec.parallelism.nodes: 1. Outrider continues within 30 s.",
        "guide/nodes.md",
    )
    INFERENCE_POOL_MISSING = (
        "InferencePoolMissing",
        Need.PERSON,
        "`spec.inferencePool` is set, and the cluster has no InferencePool, the operator has no right to "
        "create one, or `memberOf` names a model without a pool. The engines serve behind their Service.",
        "Install the InferencePool CRD of inference.networking.k8s.io/v1, give the operator the right that "
        "the message names, or correct memberOf. Outrider continues within 30 s.",
        "guide/inference-pool.md",
    )
    ENDPOINT_PICKER_MISSING = (
        "EndpointPickerMissing",
        Need.PERSON,
        "`inferencePool.endpointPicker` names a Service that the namespace does not have. The engines serve "
        "behind their own Service.",
        "Install the endpoint picker, or correct endpointPicker.service. Outrider looks again within 30 s.",
        "guide/inference-pool.md",
    )
    INFERENCE_POOL_NOT_ACCEPTED = (
        "InferencePoolNotAccepted",
        Need.PERSON,
        "A gateway does not accept the InferencePool of the model, or cannot resolve its endpoint picker. "
        "The message has the gateway's answer.",
        "Correct what the message names: the HTTPRoute, or endpointPicker with its port. Outrider looks "
        "again within 30 s.",
        "guide/inference-pool.md",
    )
    NAME_TAKEN = (
        "NameTaken",
        Need.PERSON,
        "The name of an object that Outrider has to create belongs to an object that it does not own. If it "
        "is the canary's name, the replicas serve without a canary. If it is the InferencePool's, they serve "
        "behind the Service.",
        "Rename the model, delete that object, or set tuning.canary: Never if it is the canary's name.",
    )
    APPLY_REFUSED = (
        "ApplyRefused",
        Need.PERSON,
        "The API server refused an object of the model.",
        "Read the API server's answer in the message: quota, admission policy, RBAC or an unknown field of "
        "podTemplate.",
    )
    RECONCILE_FAILED = (
        "ReconcileFailed",
        Need.PERSON,
        "Three reconciles in a row failed, or one took longer than a minute and was stopped. Outrider "
        "retries, at least every two minutes.",
        "The message has the cause. If a reconcile was stopped, look for an admission webhook that hangs; "
        "else read the logs of the operator and the API server.",
    )
    WEIGHTS_NOT_FOUND = (
        "WeightsNotFound",
        Need.PERSON,
        "The hub or the bucket has no such repository, folder or revision.",
        "Correct uri or revision. A private repository needs model.secretRef.",
    )
    WEIGHTS_REFUSED = (
        "WeightsRefused",
        Need.PERSON,
        "The hub or the bucket refuses the download: credentials are missing or wrong, or the model's terms "
        "are not accepted.",
        "Accept the model's terms on the hub and check the token in model.secretRef. For s3://, check "
        "cache.s3.secret or the identity of the service account. Outrider retries.",
    )
    VOLUME_FULL = (
        "VolumeFull",
        Need.PERSON,
        "The weights do not fit on the volume of `spec.cache`.",
        "The message has the sizes. Raise cache.size if the storage class can expand, or name a larger "
        "claim. Outrider retries.",
    )
    CHECKSUM_MISMATCH = (
        "ChecksumMismatch",
        Need.PERSON,
        "A downloaded file differs from its checksum at the source. Outrider removed it and downloads it "
        "again.",
        "Wait for the next attempt. If it lasts, check the volume, and any mirror or proxy in between.",
    )
    DOWNLOAD_FAILED = (
        "DownloadFailed",
        Need.PERSON,
        "The download failed for another cause, or was killed twice. Outrider resumes it with the missing "
        "files.",
        "Read the message, then `kubectl logs job/MODEL-dl-…`. Exit code 137 with OOMKilled needs a node "
        "with more memory.",
    )
    DRAFTER_MISMATCH = (
        "DrafterMismatch",
        Need.PERSON,
        "The drafter was made for a model of other sizes, which the message has. No engine starts.",
        "Name a drafter that was made for this model. A draft_model of another vocabulary needs "
        "speculation.config.use_heterogeneous_vocab: true.",
        "guide/weights.md",
    )
    TRANSFER_PEER_DIFFERS = (
        "TransferPeerDiffers",
        Need.PERSON,
        "`engine.kvTransferPeer` names a model with another target, vLLM release or drafter, or another "
        "largest K. A KV connector needs the same on both sides. The pods of before keep serving.",
        "Set what the message names to the same value in both models. Outrider continues within 30 s.",
        "guide/prefill-decode.md",
    )
    WILL_NOT_FIT = (
        "WillNotFit",
        Need.PERSON,
        "The weights alone need more memory than the GPUs that the spec selects. Outrider creates the pods "
        "all the same, and clears this when one serves.",
        "Raise parallelism.tensor, select a larger GPU, or use quantized weights; the message has the "
        "numbers.",
        "guide/plan.md",
    )
    MODEL_NOT_FOUND = (
        "ModelNotFound",
        Need.PERSON,
        "The engine found no model or drafter at the given path.",
        "Check model.uri, drafter.uri and the volume.",
    )
    VERIFICATION_UNAVAILABLE = (
        "AdaptiveVerificationUnavailable",
        Need.PERSON,
        "`speculation.verification` is Adaptive, and vLLM cannot do it on this GPU with this model. "
        "FlashAttention 2 and 4 cannot, nor can most layers with a recurrent state. The engine ends before "
        "it loads weights.",
        "Set engine.args.attention-backend: TRITON_ATTN, select a GPU such as H100, or set verification to "
        "Fixed.",
        "guide/adaptive-verification.md",
    )
    ENGINE_IMAGE_INCOMPLETE = (
        "EngineImageIncomplete",
        Need.PERSON,
        "The engine's image lacks a Python package that Outrider's plugin needs, or its Python is older than "
        "3.11. The launcher ends before it loads weights.",
        "Set engine.image to an image that has what the message names, or leave it out for vLLM's own.",
        "guide/engine-image.md",
    )
    IMAGE_PULL_FAILED = (
        "ImagePullFailed",
        Need.PERSON,
        "The kubelet cannot pull an image of the pod.",
        "Check engine.image, the chart's pluginImage, the image of oci:// and the pull secret.",
    )
    CONTAINER_NOT_CREATED = (
        "ContainerNotCreated",
        Need.PERSON,
        "The kubelet cannot create a container of a pod, mostly because a Secret, a ConfigMap or a key is "
        "missing.",
        "Create the object that the message names, or correct model.secretRef or podTemplate. The pod then "
        "starts.",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        Need.PERSON,
        "No node has room for a pod. The message is the scheduler's. With two replicas or more, Outrider "
        "replaces pods in place after `rollout.surgeTimeout`.",
        "Add a node, free GPUs, or ask for fewer in resources. A single replica needs rollout.maxSurge: 0 "
        "and maxUnavailable: 1, with an outage.",
        "guide/rollouts.md",
    )
    VOLUME_NOT_READY = (
        "VolumeNotReady",
        Need.PERSON,
        "The kubelet cannot mount a volume of the pod.",
        "Check the claims in podTemplate and in pvc:// addresses.",
    )
    ENGINE_CRASHING = (
        "EngineCrashing",
        Need.PERSON,
        "The engine process ends again and again, or refuses one of its flags. The message has its last "
        "output.",
        "Read `kubectl logs --previous` of the pod. If memory ran out during graph capture, lower "
        "gpu-memory-utilization or name fewer candidates.",
        "runbooks/known-defects.md",
    )
    PODS_NOT_CREATED = (
        "PodsNotCreated",
        Need.PERSON,
        "The API server refuses the pods.",
        "Read its answer in the message: an unknown service account, a quota or an admission webhook.",
    )
    DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        Need.PERSON,
        "The pods did not become ready within `spec.rollout.progressDeadline`.",
        "Look at the pods. For a large model, raise rollout.progressDeadline.",
    )
    DRAFTER_SLOWER = (
        "DrafterSlower",
        Need.PERSON,
        "The new drafter of the spec was slower than the one before on the same traffic. All pods keep the "
        "one before.",
        "Restore the former drafter in the spec, or set another one. To give the new one to all pods "
        "nevertheless, set tuning.canary: Never.",
        "guide/new-drafter.md",
    )
    ROLLED_BACK = (
        "RolledBack",
        Need.PERSON,
        "The rollout of this spec failed, and Outrider restored the last good revision. The message has the "
        "cause.",
        "Correct the spec; Outrider tries any change that reaches pods. To retry an unchanged spec, set "
        "rollout.onFailure: Hold; restore RollBack once it serves.",
        "guide/rollouts.md",
    )
    LAUNCH_ORDER_UNREADABLE = (
        "LaunchOrderUnreadable",
        Need.PERSON,
        "The ConfigMap `<model>-launch` cannot be parsed, so engines are launched as the spec says.",
        "Delete that ConfigMap. The tuner creates it again when it relaunches.",
    )
    TARGET_NOT_FOUND = (
        "TargetNotFound",
        Need.PERSON,
        "The object that `spec.target.workload` names does not exist, or the cluster does not have its kind.",
        "Correct name or kind, or select the pods by their labels in spec.target.selector.",
        "guide/running-pods.md",
    )
    TARGET_NOT_READABLE = (
        "TargetNotReadable",
        Need.PERSON,
        "The operator has no right to read the object that `spec.target.workload` names, or the object does "
        "not say which pods it has.",
        "Give the operator's role the right that the message names, or use spec.target.selector.",
        "guide/running-pods.md",
    )
    NO_POD_MATCHES = (
        "NoPodMatches",
        Need.PERSON,
        "No pod of the namespace has the labels of `spec.target`.",
        "Correct the labels, or start the pods. Outrider finds new pods within ten seconds.",
        "guide/running-pods.md",
    )
    SELECTED_TWICE = (
        "SelectedTwice",
        Need.PERSON,
        "Another SpeculativeModel tunes pods of `spec.target`. The one that a pod names in its annotation "
        "outrider.dev/plugin keeps it; without one, the older keeps it.",
        "Change the selector of one of them, or delete one.",
        "guide/running-pods.md",
    )
    PLUGIN_MISSING = (
        "PluginMissing",
        Need.PERSON,
        "Pods of `spec.target` serve without Outrider's plugin, so Outrider cannot change K there.",
        "Add the plugin to the pods' manifest and roll them out.",
        "guide/running-pods.md",
    )
    KEY_MISMATCH = (
        "KeyMismatch",
        Need.PERSON,
        "Pods of `spec.target` refuse requests with the key of this SpeculativeModel.",
        "Mount the ConfigMap `<name>-schedule` of this SpeculativeModel in the pods, and set "
        "OUTRIDER_PUBLIC_KEY_FILE and OUTRIDER_POD_UID.",
        "guide/running-pods.md",
    )
    TARGET_UNREACHABLE = (
        "TargetUnreachable",
        Need.PERSON,
        "No engine answers at the port of `spec.target` in a ready pod.",
        "Set spec.target.port to the port of vLLM, or admit the operator in the NetworkPolicy of the pods. "
        "An engine that serves TLS needs OUTRIDER_CONTROL_PORT.",
        "guide/running-pods.md",
    )
    LAUNCHES_DIFFER = (
        "LaunchesDiffer",
        Need.PERSON,
        "Pods of `spec.target` run another method, other values of K or another release than most of them. "
        "Outrider tunes most of them, and the others keep the schedule of their launch.",
        "Wait for the end of a rollout. If it lasts, create a SpeculativeModel for each launch.",
        "guide/running-pods.md",
    )
    NOT_TUNED = (
        "NotTuned",
        Need.PERSON,
        "The tuner cannot work with this model. It serves with the schedule that its engines have.",
        "Correct what the message names; the operator's log has the details.",
    )


class AdviceReason(Reason):
    """Reasons of `ConditionType.KNOWN_ISSUES`."""

    LAUNCH_AFFECTED = (
        "LaunchAffected",
        Need.NOTE,
        "K stays the same although the spec asks for tuning, or this vLLM release has a known defect that "
        "may affect the launch.",
        "The message has each issue and its remedy.",
        "reference/versions.md",
    )
    PLUGIN_DIFFERS = (
        "PluginDiffers",
        Need.NOTE,
        "Pods of `spec.target` have a plugin of another version than the operator. Outrider tunes them.",
        "Bring the plugin of the operator's version into the pods' manifest with the next rollout.",
        "guide/running-pods.md",
    )
