{{/* A pod's template; called with a map: root, component, arguments (list), has (component's
values), and whether it is probed. */}}
{{- define "manent.pod" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
metadata:
  annotations:
    checksum/settings: {{ include "manent.settings" $root | sha256sum }}
    {{- with $values.pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "manent.labels" (list $root .component) | nindent 4 }}
    {{- with $values.pod.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  serviceAccountName: {{ include "manent.serviceAccount" $root | quote }}
  automountServiceAccountToken: {{ $values.serviceAccount.token }}
  enableServiceLinks: false
  securityContext:
    runAsNonRoot: true
    {{- with $values.pod.userID }}
    runAsUser: {{ . | int64 }}
    runAsGroup: {{ . | int64 }}
    fsGroup: {{ . | int64 }}
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  {{- with .has.terminationGracePeriodSeconds }}
  terminationGracePeriodSeconds: {{ . | int64 }}
  {{- end }}
  {{- if not .probed }}
  restartPolicy: OnFailure
  {{- end }}
  {{- with $values.pod.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
  {{- with get $values.pod $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  containers:
    - name: manent
      image: {{ include "manent.image" $root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        {{- toYaml .arguments | nindent 8 }}
      {{- include "manent.environment" $values | nindent 6 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        privileged: false
        runAsNonRoot: true
        capabilities:
          drop: [ALL]
      {{- if .probed }}
      {{- include "manent.probes" (dict "values" $values "has" .has "api" (has "--no-api" .arguments | not)) | nindent 6 }}
      {{- end }}
      resources:
        {{- toYaml .has.resources | nindent 8 }}
      volumeMounts:
        - name: settings
          mountPath: /etc/manent/settings
          readOnly: true
        {{- if $values.places }}
        - name: places
          mountPath: /etc/manent/places
          readOnly: true
        {{- end }}
        - name: tmp
          mountPath: /tmp
        - name: work
          mountPath: /var/lib/manent
        {{- if eq .component "worker" }}
        - name: artifacts
          mountPath: /var/lib/manent/artifacts
        {{- end }}
        {{- with $values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: settings
      configMap:
        name: {{ include "manent.fullname" $root | quote }}
        items:
          - key: manent.yml
            path: manent.yml
    {{- if $values.places }}
    - name: places
      projected:
        sources:
          {{- range $values.places }}
          - configMap:
              name: {{ . | quote }}
          {{- end }}
    {{- end }}
    - name: tmp
      emptyDir: {}
    {{- if eq .component "worker" }}
    - name: artifacts
      emptyDir:
        sizeLimit: {{ $values.worker.artifacts.sizeLimit | quote }}
    {{- else }}
    - name: work
      emptyDir: {}
    {{- end }}
    {{- with $values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "manent.environment" -}}
env:
  - name: MANENT_CONFIG
    value: /etc/manent/settings/manent.yml
  - name: HOME
    value: /tmp
  {{- with .environment }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or .secrets .configMaps }}
envFrom:
  {{- range .configMaps }}
  - configMapRef:
      name: {{ . | quote }}
  {{- end }}
  {{- range .secrets }}
  - secretRef:
      name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Three probes on the listener of the metrics, which requests cannot keep busy. */}}
{{- define "manent.probes" -}}
ports:
  {{- if .api }}
  - name: http
    containerPort: 8420
    protocol: TCP
  {{- end }}
  - name: metrics
    containerPort: 8421
    protocol: TCP
startupProbe:
  httpGet: {path: /livez, port: metrics}
  {{- toYaml .values.probes.startup | nindent 2 }}
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  {{- toYaml .values.probes.liveness | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  {{- toYaml .values.probes.readiness | nindent 2 }}
{{- with .has.preStopSeconds }}
lifecycle:
  preStop:
    exec:
      command: [python3, -c, import time; time.sleep({{ . | int64 }})]
{{- end }}
{{- end -}}
