{{- /* Names, labels, images and what every pod has. */ -}}

{{- define "sie.name" -}}
{{- $name := .Values.fullnameOverride | default (contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name)) -}}
{{- /* 253 is the limit of names, 63 of labels and Services: with a pool's name it must fit. */ -}}
{{- $name | trunc 28 | trimSuffix "-" -}}
{{- end }}

{{- define "sie.gateway" -}}{{ include "sie.name" . }}-gateway{{- end }}

{{- /* Selects pods: (dict "root" $ "component" "worker" "pool" "l4"). Never changes in a release. */ -}}
{{- define "sie.selector" -}}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
sie-mcp/pool: {{ . }}
{{- end }}
{{- end }}

{{- define "sie.labels" -}}
{{ include "sie.selector" . }}
app.kubernetes.io/name: sie-mcp
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- /* (dict "root" $ "image" map) */ -}}
{{- define "sie.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* What Pod Security "restricted" asks of a pod, and what keeps its environment ours: variables
of Services are named like settings, and an unknown setting stops a start. */ -}}
{{- define "sie.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "sie.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Settings as variables, in order; a list becomes one text with commas. */ -}}
{{- define "sie.env" -}}
{{- range $name, $value := . }}
- name: SIE_MCP_{{ upper $name }}
  value: {{ (kindIs "slice" $value | ternary (kindIs "slice" $value | ternary $value list | join ",") (include "sie.text" $value)) | quote }}
{{- end }}
{{- end }}

{{- /* Numbers of values are floats: 2000000 must not become 2e+06. */ -}}
{{- define "sie.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ toString . }}{{- end -}}
{{- end }}

{{- /* The address of the broker, which may hold a password: from its Secret. */ -}}
{{- define "sie.queueUri" -}}
{{- with .Values.queue.existingSecret }}
- name: SIE_MCP_QUEUE_URI
  valueFrom: {secretKeyRef: {name: {{ . }}, key: uri}}
{{- end }}
{{- end }}

{{- /* What stands for a model in a consumer's name; as sie_mcp/broker/names.py has it. */ -}}
{{- define "sie.queueToken" -}}
{{- urlquery . | replace "." "%2E" -}}
{{- end }}

{{- define "sie.keysSecret" -}}
{{- .Values.auth.existingSecret | default (printf "%s-keys" (include "sie.name" .)) -}}
{{- end }}

{{- /* "true" where an API is there, or is said to be: (dict "root" $ "mode" "auto" "api" "keda.sh/v1alpha1") */ -}}
{{- define "sie.has" -}}
{{- if or (eq .mode "on") (and (eq .mode "auto") (.root.Capabilities.APIVersions.Has .api)) -}}true{{- end -}}
{{- end }}

{{- define "sie.hasKeda" -}}
{{- include "sie.has" (dict "root" . "mode" .Values.keda.mode "api" "keda.sh/v1alpha1") -}}
{{- end }}

{{- define "sie.hasMonitors" -}}
{{- include "sie.has" (dict "root" . "mode" .Values.monitoring.mode "api" "monitoring.coreos.com/v1") -}}
{{- end }}

{{- /* "true" where gateways ask the API of Kubernetes who there is. */ -}}
{{- define "sie.asksApi" -}}
{{- if eq .Values.gateway.discovery "endpointslices" -}}true{{- end -}}
{{- end }}

{{- /* A token for the API alone, and short-lived: what a pod gets by itself is not mounted. */ -}}
{{- define "sie.apiVolume" -}}
- name: api
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}

{{- define "sie.apiMount" -}}
- {name: api, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}

{{- define "sie.picker" -}}{{ include "sie.name" . }}-endpoint-picker{{- end }}

{{- define "sie.hasPicker" -}}
{{- include "sie.has" (dict "root" . "mode" .Values.endpointPicker.mode "api" "inference.networking.k8s.io/v1") -}}
{{- end }}

{{- /* Services whose pods know demand, as a pattern of Prometheus. */ -}}
{{- define "sie.demandServices" -}}
{{- if include "sie.hasPicker" . -}}
service=~"{{ include "sie.gateway" . }}|{{ include "sie.picker" . }}"
{{- else -}}
service="{{ include "sie.gateway" . }}"
{{- end -}}
{{- end }}
