{{- define "manent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the names and labels that Kubernetes makes of it. */}}
{{- define "manent.fullname" -}}
{{- $name := include "manent.name" . -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- $full := default $both .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $full) -}}
{{- fail (printf "%s is no name of a Service: set fullnameOverride to letters, digits and - that begin with a letter" $full) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* What a selector goes by; called with (list . "component"). */}}
{{- define "manent.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ include "manent.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
{{- with last . }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "manent.labels" -}}
{{- $root := first . -}}
{{ include "manent.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") | quote }}
{{- end -}}

{{- define "manent.serviceAccount" -}}
{{- default (.Values.serviceAccount.create | ternary (include "manent.fullname" .) "default") .Values.serviceAccount.name -}}
{{- end -}}

{{- define "manent.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* manent.yml: the settings, and what is the chart's own. */}}
{{- define "manent.settings" -}}
{{- $host := contains ":" .Values.pod.address | ternary (printf "[%s]" .Values.pod.address) .Values.pod.address -}}
{{- $server := dict "listen" (printf "%s:8420" $host) "metrics_listen" (printf "%s:8421" $host) -}}
{{- $own := dict "server" $server "worker" (dict "workdir" "/var/lib/manent") -}}
{{- if .Values.places -}}
{{- $_ := set $own "include" (list "../places/*.yml") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.settings) $own | toYaml -}}
{{- end -}}

{{/* The seconds of a duration such as 1h30m. */}}
{{- define "manent.seconds" -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)" (toString .) -1 -}}
{{- $sum = addf $sum (mulf (regexFind "[0-9.]+" . | float64) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- ceil $sum | int64 -}}
{{- end -}}
