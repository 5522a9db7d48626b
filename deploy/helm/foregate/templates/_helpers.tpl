{{- define "foregate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "foregate.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "foregate.labels" -}}
{{ include "foregate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "foregate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "foregate.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "foregate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "foregate.configSecret" -}}
{{- .Values.existingConfig.secret | default (printf "%s-config" (include "foregate.fullname" .)) -}}
{{- end -}}

{{/* The Secret of the operators' tokens, and its key. */}}
{{- define "foregate.tokensSecret" -}}
{{- if .Values.adminTokens.value -}}
{{- printf "%s-admin-tokens" (include "foregate.fullname" .) -}}
{{- else -}}
{{- .Values.adminTokens.existingSecret | required "adminTokens.existingSecret: missing; name a Secret with lines NAME SCOPES SECRET, or give adminTokens.value" -}}
{{- end -}}
{{- end -}}
{{- define "foregate.tokensKey" -}}
{{- ternary "tokens" .Values.adminTokens.key (ne .Values.adminTokens.value "") -}}
{{- end -}}

{{/* The Secret of the keys that seal, and its key. */}}
{{- define "foregate.sealSecret" -}}
{{- .Values.sealKeys.existingSecret | default (printf "%s-seal-keys" (include "foregate.fullname" .)) -}}
{{- end -}}
{{- define "foregate.sealKey" -}}
{{- ternary .Values.sealKeys.key "keys" (ne .Values.sealKeys.existingSecret "") -}}
{{- end -}}

{{/*
The keys that seal, in base64, for a Secret of the chart; "" where it makes none.
What the cluster has is kept, whatever it holds by now; a Secret that somebody else made is left to them. A new one is
generated only where there is a cluster to look into, which has a service account "default" in each namespace: without
one (helm template, GitOps) each rendering would have another, so it has none, and pods wait for a Secret that
somebody makes.
*/}}
{{- define "foregate.sealKeys" -}}
{{- if .Values.sealKeys.existingSecret -}}
{{- else if .Values.sealKeys.value -}}
{{- .Values.sealKeys.value | b64enc -}}
{{- else -}}
{{- $old := lookup "v1" "Secret" .Release.Namespace (include "foregate.sealSecret" .) -}}
{{- if and $old (ne (dig "metadata" "labels" "app.kubernetes.io/managed-by" "" $old) .Release.Service) -}}
{{- else if $old -}}
{{- dig "data" "keys" "" $old | required (printf "sealKeys: the Secret %s has no key named keys" (include "foregate.sealSecret" .)) -}}
{{- else if lookup "v1" "ServiceAccount" .Release.Namespace "default" -}}
{{- printf "k1 %s\n" (randAlphaNum 64) | b64enc -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Least number of replicas that there are. */}}
{{- define "foregate.replicas" -}}
{{- ternary .Values.autoscaling.minReplicas .Values.replicaCount .Values.autoscaling.enabled -}}
{{- end -}}

{{/* Whole seconds of a duration as Go writes it; parts of one are cut. */}}
{{- define "foregate.seconds" -}}
{{- $t := toDate "2006-01-02" "2000-01-01" -}}
{{- sub ($t | mustDateModify . | unixEpoch) ($t | unixEpoch) -}}
{{- end -}}

{{/* Bytes of a quantity of memory such as 512Mi. A number in a file of values comes as a float, which prints as 5e+08. */}}
{{- define "foregate.bytes" -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "" 1 -}}
{{- $text := ternary (printf "%.0f" .) (toString .) (kindIs "float64" .) -}}
{{- $bytes := mul (regexFind "^[0-9]+" $text) (get $units (regexFind "[A-Za-z]*$" $text)) -}}
{{- if lt $bytes 67108864 -}}
{{- fail (printf "resources.limits.memory: %d bytes; give 64Mi at least" $bytes) -}}
{{- end -}}
{{- $bytes -}}
{{- end -}}

{{/* Port of a URL or of HOST:PORT, of what has none the default. */}}
{{- define "foregate.port" -}}
{{- regexFind ":[0-9]+$" .host | trimPrefix ":" | default .default -}}
{{- end -}}
