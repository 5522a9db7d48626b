{{/* "true" where config names something; where it does not, files/example.yaml is served. */}}
{{- define "foregate.named" -}}
{{- $c := .Values.config -}}
{{- if or (get $c "pools") (get $c "routes") (get $c "tenants") (get $c "identity") -}}true{{- end -}}
{{- end -}}

{{/* What is configured: config, and the example where it names nothing. */}}
{{- define "foregate.config" -}}
{{- $c := deepCopy .Values.config -}}
{{- range list "listen" "admin" "admin_tokens_file" "tenants_file" -}}
{{- if hasKey $c . -}}
{{- fail (printf "config.%s: is set by the chart; remove it (ports are service.port and adminService.port, files are adminTokens and tenants)" .) -}}
{{- end -}}
{{- end -}}
{{- if dig "cache" "seal_keys_file" "" $c -}}
{{- fail "config.cache.seal_keys_file: is set by the chart; remove it (the file is sealKeys)" -}}
{{- end -}}
{{- if not (include "foregate.named" .) -}}
{{- $c = merge $c (.Files.Get "files/example.yaml" | fromYaml) -}}
{{- end -}}
{{- range list "pools" "routes" -}}
{{- if not (get $c .) -}}
{{- fail (printf "config.%s: missing; give at least one, as in docs/reference.md" .) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $c "listen" ":8080" -}}
{{- $_ := set $c "admin" ":9090" -}}
{{- $_ := set $c "admin_tokens_file" "/run/secrets/foregate/admin/tokens" -}}
{{- $_ := set $c "cache" (merge (dict "seal_keys_file" "/run/secrets/foregate/seal/keys") (get $c "cache" | default dict)) -}}
{{- $_ := unset $c "tenants" -}}
{{- if include "foregate.tenantsSecret" . -}}
{{- $_ := set $c "tenants_file" "/run/secrets/foregate/tenants/tenants.yaml" -}}
{{- end -}}
{{- $redis := get $c "redis" | default dict -}}
{{- $_ := set $redis "replicas" (get $redis "replicas" | default (include "foregate.replicas" . | int)) -}}
{{- $_ := set $c "redis" $redis -}}
{{- if and (eq (get $redis "url" | default "none") "embedded") (or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1)) -}}
{{- fail "config.redis.url: embedded is inside one process; with several replicas give the URL of a Redis that they share" -}}
{{- end -}}
{{- include "foregate.checkFiles" (dict "root" . "config" $c) -}}
{{- toYaml $c -}}
{{- end -}}

{{/* "true" where the public listener speaks TLS. */}}
{{- define "foregate.tls" -}}
{{- if ternary .Values.existingConfig.tls (hasKey .Values.config "tls") (ne .Values.existingConfig.secret "") -}}true{{- end -}}
{{- end -}}

{{/* "true" where the admin listener speaks TLS. Kubelets present no certificate. */}}
{{- define "foregate.adminTLS" -}}
{{- if .Values.existingConfig.secret -}}
{{- if .Values.existingConfig.adminTLS -}}true{{- end -}}
{{- else if hasKey .Values.config "admin_tls" -}}
{{- if dig "admin_tls" "client_ca_file" "" .Values.config -}}
{{- fail "config.admin_tls.client_ca_file: probes of kubelets present no certificate, so no pod would become ready; remove it (operators and Prometheus show tokens)" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/* The tenants of config as YAML, or of the example where config names nothing; "" is none. */}}
{{- define "foregate.tenants" -}}
{{- $c := .Values.config -}}
{{- if not (include "foregate.named" .) -}}
{{- $c = .Files.Get "files/example.yaml" | fromYaml -}}
{{- end -}}
{{- with get $c "tenants" -}}
{{- if $.Values.tenants.existingSecret -}}
{{- fail "config.tenants: tenants.existingSecret is given, too; put all of them into one" -}}
{{- end -}}
{{- dict "tenants" . | toYaml -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the tenants; "" where nobody has a key. */}}
{{- define "foregate.tenantsSecret" -}}
{{- if .Values.tenants.existingSecret -}}
{{- .Values.tenants.existingSecret -}}
{{- else if and (not .Values.existingConfig.secret) (include "foregate.tenants" .) -}}
{{- printf "%s-tenants" (include "foregate.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The files that a part of the file names, a line FIELD PATH for each: every field whose name ends with
_file. */}}
{{- define "foregate.files" -}}
{{- $at := .at -}}
{{- range $name, $v := .part -}}
{{- $field := printf "%s.%s" $at $name -}}
{{- if kindIs "map" $v -}}
{{- include "foregate.files" (dict "at" $field "part" $v) -}}
{{- else if and $v (hasSuffix "_file" $name) -}}
{{- printf "%s %s\n" $field (toString $v) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails where the file names a path that nothing is mounted at. The chart mounts its own. */}}
{{- define "foregate.checkFiles" -}}
{{- $own := list "config.admin_tokens_file" "config.tenants_file" "config.cache.seal_keys_file" -}}
{{- range $line := include "foregate.files" (dict "at" "config" "part" .config) | splitList "\n" -}}
{{- $field := regexFind "^[^ ]*" $line -}}
{{- $path := $line | trimPrefix $field | trimPrefix " " -}}
{{- $dir := regexFind "^/run/secrets/foregate/[^/]+/[^/]+$" $path | dir | base -}}
{{- if not (or (eq $line "") (has $field $own) (hasKey $.root.Values.secretFiles $dir)) -}}
{{- fail (printf "%s: %s is mounted by nothing; put a Secret under secretFiles.NAME and write /run/secrets/foregate/NAME/KEY" $field $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Seconds from SIGTERM to SIGKILL. */}}
{{- define "foregate.termination" -}}
{{- if .Values.terminationGracePeriodSeconds -}}
{{- int .Values.terminationGracePeriodSeconds -}}
{{- else if .Values.existingConfig.secret -}}
{{- fail "terminationGracePeriodSeconds: missing; the chart cannot read drain in existingConfig.secret, so give drain.delay + drain.grace + 15 seconds" -}}
{{- else -}}
{{- $drain := get .Values.config "drain" | default dict -}}
{{- $delay := include "foregate.seconds" (toString (get $drain "delay" | default "5s")) | int -}}
{{- $grace := include "foregate.seconds" (toString (get $drain "grace" | default "25s")) | int -}}
{{- $longest := include "foregate.seconds" .Values.longestStream | int -}}
{{- if lt $grace (add $longest 2 | int) -}}
{{- fail (printf "config.drain.grace: %ds is too short for a stream of %ds (longestStream): what is left two seconds before its end is cut; give at least %ds, or say that streams are shorter" $grace $longest (add $longest 2)) -}}
{{- end -}}
{{- add $delay $grace .Values.terminationMarginSeconds -}}
{{- end -}}
{{- end -}}

{{/* Ports of pools, as JSON. */}}
{{- define "foregate.poolPorts" -}}
{{- $ports := dict -}}
{{- if not .Values.existingConfig.secret -}}
{{- range $name, $p := (include "foregate.config" . | fromYaml).pools -}}
{{- range get $p "backends" | default list -}}
{{- $u := urlParse . -}}
{{- $_ := set $ports (include "foregate.port" (dict "host" $u.host "default" (ternary "443" "80" (eq $u.scheme "https")))) true -}}
{{- end -}}
{{- if hasPrefix "dns://" (get $p "discover" | default "") -}}
{{- $_ := set $ports (include "foregate.port" (dict "host" (get $p "discover") "default" "80")) true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.networkPolicy.pools.extraPorts -}}
{{- $_ := set $ports (int . | toString) true -}}
{{- end -}}
{{- keys $ports | sortAlpha | toJson -}}
{{- end -}}

{{/* Backends outside of the cluster, as JSON: FIELD HOST:PORT. Names of the cluster have no dot, or end with its domain. */}}
{{- define "foregate.outside" -}}
{{- $out := list -}}
{{- if not .Values.existingConfig.secret -}}
{{- range $name, $p := (include "foregate.config" . | fromYaml).pools -}}
{{- range get $p "backends" | default list -}}
{{- $u := urlParse . -}}
{{- if not (regexMatch "^[^.:\\[]+$|\\.svc$|\\.svc\\.|\\.cluster\\.local$" $u.hostname) -}}
{{- $port := include "foregate.port" (dict "host" $u.host "default" (ternary "443" "80" (eq $u.scheme "https"))) -}}
{{- $out = append $out (printf "config.pools.%s: %s port %s" $name $u.hostname $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $out | uniq | toJson -}}
{{- end -}}

{{/* Ports of Redis, as JSON: what stands behind each host of each URL. */}}
{{- define "foregate.redisPorts" -}}
{{- $ports := dict -}}
{{- if not .Values.existingConfig.secret -}}
{{- $redis := (include "foregate.config" . | fromYaml).redis -}}
{{- range list "url" "cache_url" "settings_url" -}}
{{- $url := get $redis . | default "" -}}
{{- if regexMatch "^rediss?(\\+[a-z]+)?://" $url -}}
{{- $hosts := $url | regexFind "://.*$" | trimPrefix "://" | regexFind "[^@]*$" | regexFind "^[^/?]*" -}}
{{- $default := ternary "26379" "6379" (contains "+sentinel://" $url) -}}
{{- range splitList "," $hosts -}}
{{- $_ := set $ports (include "foregate.port" (dict "host" . "default" $default)) true -}}
{{- end -}}
{{- if contains "+sentinel://" $url -}}
{{- $_ := set $ports "6379" true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.networkPolicy.redis.extraPorts -}}
{{- $_ := set $ports (int . | toString) true -}}
{{- end -}}
{{- keys $ports | sortAlpha | toJson -}}
{{- end -}}
