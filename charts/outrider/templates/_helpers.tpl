{{- define "outrider.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "outrider.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "outrider.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "outrider.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "outrider.selector" -}}
app.kubernetes.io/name: {{ include "outrider.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The label managed-by is Helm's here: objects that bear "outrider" in it belong to a model. */}}
{{- define "outrider.labels" -}}
{{ include "outrider.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "outrider.serviceAccountName" -}}
{{- default (include "outrider.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Number of the operator's pods: one per shard, and the standbys. */}}
{{- define "outrider.pods" -}}
{{- if int .Values.replicas }}{{ sub (add (int .Values.shards) (int .Values.replicas)) 1 }}{{ else }}0{{ end -}}
{{- end -}}

{{/* "yes" if the platform assigns the user IDs of pods, else empty. */}}
{{- define "outrider.platformUser" -}}
{{- $openshift := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if or (eq .Values.podUser "Platform") (and (eq .Values.podUser "auto") $openshift) }}yes{{ end -}}
{{- end -}}

{{/* "yes" if the admission policy is installed, else empty. */}}
{{- define "outrider.admissionPolicy" -}}
{{- $enabled := .Values.admissionPolicy.enabled | toString -}}
{{- $there := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") $there) }}yes{{ end -}}
{{- end -}}

{{/* What the operator really does; tests/unit/chart compares it with the client's requests. */}}
{{- define "outrider.rules" -}}
- apiGroups: [outrider.dev]
  resources: [speculativemodels]
  verbs: [list, watch]
- apiGroups: [outrider.dev]
  resources: [speculativemodels/status]
  verbs: [patch]
# blockOwnerDeletion needs it if OwnerReferencesPermissionEnforcement is on.
- apiGroups: [outrider.dev]
  resources: [speculativemodels/finalizers]
  verbs: [update]
# To delete the canary after its measurement.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
# To delete the Job of a completed download.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
# To delete the budget of a model with one pod or none.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# To restore the pods of the last good revision after a failed rollout.
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list]
# Only by name. Garbage collection deletes a claim with its model.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, create, patch]
# Garbage collection deletes them with their model.
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch]
# Only by name: the operator never lists Secrets.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
# Only by name: the objects that spec.target names, to find their pods.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get]
- apiGroups: [serving.kserve.io]
  resources: [inferenceservices, llminferenceservices]
  verbs: [get]
# Only by name: also those that spec.inferencePool asks for.
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [get, create, patch, delete]
{{- if not .Values.leaderWorkerSets.enabled }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get]
{{- end }}
{{- if .Values.networkPolicy.enabled }}
# Only by name. Garbage collection deletes them with their model.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
{{- end }}
{{- if .Values.leaderWorkerSets.enabled }}
# Only by name. To delete those of a model that returns to one node per replica.
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get, create, patch, delete]
{{- end }}
{{- end -}}
