{{- /* A pool as it is after defaults and profile, and what follows from it. */ -}}

{{- /* Puts `over` into `base`, key by key. Helm's own merges skip false, 0 and "". */ -}}
{{- define "sie.lay" -}}
{{- $base := .base -}}
{{- range $key, $value := .over -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $base $key)) (not (has $key (list "nodeSelector"))) -}}
{{- include "sie.lay" (dict "base" (get $base $key) "over" $value) -}}
{{- else -}}
{{- $_ := set $base $key $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* (dict "root" $ "pool" "l4") -> YAML of the whole pool; refuses what cannot work. */ -}}
{{- define "sie.pool" -}}
{{- $own := get .root.Values.pools .pool -}}
{{- $all := deepCopy .root.Values.poolDefaults -}}
{{- $profile := $own.profile | default $all.profile -}}
{{- if not (hasKey .root.Values.profiles $profile) -}}
{{- fail (printf "pools.%s.profile: no profile %q; there are: %s" .pool $profile (keys .root.Values.profiles | sortAlpha | join ", ")) -}}
{{- end -}}
{{- include "sie.lay" (dict "base" $all "over" (get .root.Values.profiles $profile)) -}}
{{- include "sie.lay" (dict "base" $all "over" $own) -}}
{{- if and $all.spot (kindIs "invalid" $all.graceSeconds) -}}
{{- /* Spot nodes give 25 s or so; what does not fit is asked again elsewhere. */ -}}
{{- $_ := set $all "preStopSeconds" (min (int $all.preStopSeconds) 4) -}}
{{- $_ := set $all "gracefulSeconds" (min (int $all.gracefulSeconds) 14) -}}
{{- $_ := set $all "graceSeconds" 25 -}}
{{- end -}}
{{- if kindIs "invalid" $all.graceSeconds -}}
{{- $_ := set $all "graceSeconds" (add $all.preStopSeconds $all.gracefulSeconds 17) -}}
{{- end -}}
{{- include "sie.checkPool" (dict "pool" .pool "it" $all) -}}
{{- toYaml $all -}}
{{- end }}

{{- define "sie.checkPool" -}}
{{- $it := .it -}}
{{- if gt (int $it.minReplicas) (int $it.maxReplicas) -}}
{{- fail (printf "pools.%s: minReplicas %d is more than maxReplicas %d" .pool (int $it.minReplicas) (int $it.maxReplicas)) -}}
{{- end -}}
{{- if lt (int $it.cooldownSeconds) (int $it.startupSeconds) -}}
{{- fail (printf "pools.%s: cooldownSeconds %d is less than startupSeconds %d: the pool would sleep before it woke" .pool (int $it.cooldownSeconds) (int $it.startupSeconds)) -}}
{{- end -}}
{{- if lt (int $it.graceSeconds) (int (add $it.preStopSeconds $it.gracefulSeconds 2)) -}}
{{- fail (printf "pools.%s: graceSeconds %d leaves no time for preStopSeconds %d and gracefulSeconds %d and 2 s to close" .pool (int $it.graceSeconds) (int $it.preStopSeconds) (int $it.gracefulSeconds)) -}}
{{- end -}}
{{- if and (eq $it.cache.type "hostPath") (not $it.cache.path) -}}
{{- fail (printf "pools.%s.cache: hostPath needs a path" .pool) -}}
{{- end -}}
{{- if and (eq $it.cache.type "image") (not $it.cache.image) -}}
{{- fail (printf "pools.%s.cache: image needs an image" .pool) -}}
{{- end -}}
{{- end }}

{{- define "sie.defaultPool" -}}
{{- $name := .Values.defaultPool | default (keys .Values.pools | sortAlpha | first) -}}
{{- if not (hasKey .Values.pools $name) -}}
{{- fail (printf "defaultPool: no pool %q; there are: %s" $name (keys .Values.pools | sortAlpha | join ", ")) -}}
{{- end -}}
{{- range $model, $names := .Values.catalogue.pools -}}
{{- range $names -}}
{{- if not (hasKey $.Values.pools .) -}}
{{- fail (printf "catalogue.pools.%s: no pool %q; there are: %s" $model . (keys $.Values.pools | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{- define "sie.poolName" -}}{{ include "sie.name" .root }}-pool-{{ .pool }}{{- end }}

{{- /* The plan of pools that gateways read. */ -}}
{{- define "sie.plan" -}}
default = {{ include "sie.defaultPool" . | quote }}
{{- range $pool, $_ := .Values.pools }}
{{- $it := include "sie.pool" (dict "root" $ "pool" $pool) | fromYaml }}

[pools.{{ $pool }}]
{{- $name := include "sie.poolName" (dict "root" $ "pool" $pool) }}
{{- if include "sie.asksApi" $ }}
service = "{{ $.Release.Namespace }}/{{ $name }}:http"
{{- else }}
workers = ["dns://{{ $name }}.{{ $.Release.Namespace }}.svc:9000"]
{{- end }}
slots = {{ int $it.slots }}
{{- end }}
{{- with .Values.catalogue.pools }}

[models]
{{- range $model, $names := . }}
{{ $model | quote }} = {{ $names | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Labels of nodes by cloud: (dict "root" $ "it" pool) */ -}}
{{- define "sie.nodes" -}}
{{- $cloud := .root.Values.cloud -}}
{{- $labels := deepCopy .it.nodeSelector -}}
{{- if and (gt (int .it.gpu.count) 0) (eq $cloud "gke") .it.gpu.accelerator -}}
{{- $_ := set $labels "cloud.google.com/gke-accelerator" .it.gpu.accelerator -}}
{{- else if and (gt (int .it.gpu.count) 0) .it.gpu.product -}}
{{- $_ := set $labels "nvidia.com/gpu.product" .it.gpu.product -}}
{{- end -}}
{{- if .it.spot -}}
{{- $spot := dict "gke" (dict "cloud.google.com/gke-spot" "true") "eks" (dict "eks.amazonaws.com/capacityType" "SPOT") "karpenter" (dict "karpenter.sh/capacity-type" "spot") "aks" (dict "kubernetes.azure.com/scalesetpriority" "spot") "other" dict -}}
{{- $labels = merge $labels (get $spot $cloud) -}}
{{- end -}}
{{- with $labels }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- define "sie.tolerations" -}}
{{- $all := .it.tolerations -}}
{{- if gt (int .it.gpu.count) 0 -}}
{{- $all = append $all (dict "key" .it.gpu.resource "operator" "Exists" "effect" "NoSchedule") -}}
{{- end -}}
{{- if .it.spot -}}
{{- range list "cloud.google.com/gke-spot" "eks.amazonaws.com/capacityType" "karpenter.sh/capacity-type" "kubernetes.azure.com/scalesetpriority" -}}
{{- $all = append $all (dict "key" . "operator" "Exists" "effect" "NoSchedule") -}}
{{- end -}}
{{- end -}}
{{- with $all }}{{ toYaml . }}{{ end -}}
{{- end }}
