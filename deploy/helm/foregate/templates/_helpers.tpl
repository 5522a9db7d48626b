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

{{/* The admin token's Secret and its key. */}}
{{- define "foregate.tokenSecret" -}}
{{- if .Values.adminToken.value -}}
{{- printf "%s-admin-token" (include "foregate.fullname" .) -}}
{{- else -}}
{{- .Values.adminToken.existingSecret | required "adminToken.existingSecret: missing; name a Secret with a token of at least 32 bytes, or give adminToken.value" -}}
{{- end -}}
{{- end -}}
{{- define "foregate.tokenKey" -}}
{{- ternary "token" .Values.adminToken.key (ne .Values.adminToken.value "") -}}
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

{{/* Bytes of a quantity of memory such as 512Mi. */}}
{{- define "foregate.bytes" -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "k" 1000 "M" 1000000 "G" 1000000000 "" 1 -}}
{{- mul (regexFind "^[0-9]+" (toString .)) (get $units (regexFind "[A-Za-z]*$" (toString .))) -}}
{{- end -}}

{{/* Port of a URL or of HOST:PORT, of what has none the default. */}}
{{- define "foregate.port" -}}
{{- regexFind ":[0-9]+$" .host | trimPrefix ":" | default .default -}}
{{- end -}}
