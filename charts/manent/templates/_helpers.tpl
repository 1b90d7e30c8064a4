{{- define "manent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the names and labels that Kubernetes makes of it. */}}
{{- define "manent.fullname" -}}
{{- $name := include "manent.name" . -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $both .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What a selector goes by; called with (list . "component"). */}}
{{- define "manent.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ include "manent.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with last . }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "manent.labels" -}}
{{- $root := first . -}}
{{ include "manent.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
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
{{- $server := dict "listen" "0.0.0.0:8420" "metrics_listen" "0.0.0.0:8421" -}}
{{- $own := dict "server" $server "worker" (dict "workdir" "/var/lib/manent") -}}
{{- if .Values.places -}}
{{- $_ := set $own "include" (list "../places/*.yml") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.settings) $own | toYaml -}}
{{- end -}}
