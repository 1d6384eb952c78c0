{{/* The file of evenkeel: the given one over the chart's own keys, with what picker and scaling add. */}}
{{- define "evenkeel.config" -}}
{{- $given := .Values.config -}}
{{- if kindIs "string" $given -}}
  {{- $given = fromYaml $given -}}
  {{- if hasKey $given "Error" -}}{{- fail (printf "config: no YAML: %s" $given.Error) -}}{{- end -}}
{{- end -}}
{{- $own := dict "admin" (dict "address" "0.0.0.0:9901") "shutdown" (dict "delay" "10s" "drain" "300s") "busy_polling" false -}}
{{- if include "evenkeel.countsCpus" . -}}{{- $_ := set $own "workers" "${EVENKEEL_WORKERS}" -}}{{- end -}}
{{- $file := mergeOverwrite $own (deepCopy $given) -}}

{{- if .Values.picker.inferencePool -}}
  {{- $named := printf "%s/%s" .Release.Namespace .Values.picker.inferencePool -}}
  {{- $pool := "" -}}
  {{- range $file.pools -}}
    {{- if eq (dig "discover" "kubernetes" "inference_pool" "" .) $named -}}{{- $pool = .name -}}{{- end -}}
  {{- end -}}
  {{- if not $pool -}}
    {{- $pool = .Values.picker.inferencePool -}}
    {{- $found := dict "name" $pool "discover" (dict "kubernetes" (dict "inference_pool" $named)) -}}
    {{- $_ := set $file "pools" (append ($file.pools | default list) (mergeOverwrite $found (deepCopy .Values.picker.pool))) -}}
  {{- end -}}
  {{- $listener := dict "name" "picker" "address" (printf "0.0.0.0:%d" (int .Values.picker.port)) "endpoint_picker" (dict "pool" $pool) "tls" (dict "self_signed" true) -}}
  {{- $_ := set $file "listeners" (append ($file.listeners | default list) $listener) -}}
{{- end -}}

{{- if eq .Values.scaling.by "keda" -}}
  {{- $scaler := false -}}
  {{- range $file.listeners -}}{{- if .scaler -}}{{- $scaler = true -}}{{- end -}}{{- end -}}
  {{- if not $scaler -}}
    {{- $listeners := $file.listeners | default (list (dict "name" "public" "address" "0.0.0.0:8080")) -}}
    {{- $_ := set $file "listeners" (append $listeners (dict "name" "scaler" "address" (printf "0.0.0.0:%d" (int .Values.scaling.port)) "scaler" true)) -}}
  {{- end -}}
{{- end -}}

{{- if not (or $file.pools $file.routes) -}}
  {{- fail "config: give it pools, or set picker.inferencePool" -}}
{{- end -}}
{{- toYaml $file -}}
{{- end -}}

{{/* Not empty if CPUs are requested: then they are the number of workers. */}}
{{- define "evenkeel.countsCpus" -}}
{{- if or (dig "requests" "cpu" "" .Values.resources) (dig "limits" "cpu" "" .Values.resources) -}}yes{{- end -}}
{{- end -}}

{{/* The port of an address. */}}
{{- define "evenkeel.port" -}}
{{- $port := regexFind "[0-9]+$" . -}}
{{- if or (not $port) (eq $port "0") -}}{{- fail (printf "config: '%s' has no port" .) -}}{{- end -}}
{{- $port -}}
{{- end -}}

{{/* Name, port and protocol of each listener, as a JSON list; internal: no client of models uses it. */}}
{{- define "evenkeel.listeners" -}}
{{- $file := include "evenkeel.config" . | fromYaml -}}
{{- $found := list -}}
{{- range $file.listeners | default (list dict) -}}
  {{- $name := .name | default "public" -}}
  {{- if not (regexMatch "^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$" $name) -}}
    {{- fail (printf "config: the name of listener '%s' is the name of a port: at most 15 of a-z, 0-9 and -" $name) -}}
  {{- end -}}
  {{- $grpc := or .endpoint_picker .scaler -}}
  {{- $protocol := "http" -}}
  {{- if and $grpc .tls -}}{{- $protocol = "http2" -}}
  {{- else if $grpc -}}{{- $protocol = "kubernetes.io/h2c" -}}
  {{- else if .tls -}}{{- $protocol = "https" -}}{{- end -}}
  {{- $found = append $found (dict "name" $name "port" (include "evenkeel.port" (.address | default "0.0.0.0:8080") | int) "protocol" $protocol "scaler" (.scaler | default false) "internal" (not (not $grpc))) -}}
{{- end -}}
{{- $names := list -}}
{{- range $found -}}{{- $names = append $names .name -}}{{- end -}}
{{- range $name, $_ := .Values.service.ports -}}
  {{- if not (has $name $names) -}}{{- fail (printf "service.ports: config has no listener '%s'" $name) -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- define "evenkeel.adminPort" -}}
{{- include "evenkeel.port" (include "evenkeel.config" . | fromYaml).admin.address -}}
{{- end -}}

{{/* Seconds of a duration such as 500ms, 30s or 1.5h, rounded up. */}}
{{- define "evenkeel.seconds" -}}
{{- if not (regexMatch "^[0-9.]+(ms|s|m|h|d)$" .) -}}
  {{- fail (printf "config: '%s' is no duration that the chart reads: set terminationGracePeriodSeconds" .) -}}
{{- end -}}
{{- $number := regexFind "^[0-9.]+" . | float64 -}}
{{- $unit := get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0) (regexFind "[a-z]+$" .) -}}
{{- mulf $number $unit | ceil | int -}}
{{- end -}}

{{- define "evenkeel.gracePeriod" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- $shutdown := (include "evenkeel.config" . | fromYaml).shutdown -}}
{{- add (include "evenkeel.seconds" $shutdown.delay) (include "evenkeel.seconds" $shutdown.drain) 10 -}}
{{- else -}}
{{- int .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{/* What is read in Kubernetes, by namespace, as JSON: {"default": {"slices": ["llama"], "pools": ["qwen"]}}. */}}
{{- define "evenkeel.reads" -}}
{{- $reads := dict -}}
{{- range (include "evenkeel.config" . | fromYaml).pools -}}
  {{- $kubernetes := dig "discover" "kubernetes" dict . -}}
  {{- range $key, $what := dict "service" "slices" "inference_pool" "pools" -}}
    {{- with get $kubernetes $key -}}
      {{- $namespace := first (splitList "/" .) -}}
      {{- $there := get $reads $namespace | default dict -}}
      {{- $_ := set $there $what (append (get $there $what | default list) (last (splitList "/" .)) | uniq | sortAlpha) -}}
      {{- $_ := set $reads $namespace $there -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toJson $reads -}}
{{- end -}}

{{/* What no reload can change in a container's first process: a change of it replaces the pods. */}}
{{- define "evenkeel.needsProcess" -}}
{{- $file := include "evenkeel.config" . | fromYaml -}}
{{- if .Values.reload.enabled -}}
{{- printf "%v %v" $file.workers (eq (dig "access_log" "path" "" $file) "off") | sha256sum -}}
{{- else -}}
{{- toYaml $file | sha256sum -}}
{{- end -}}
{{- end -}}
