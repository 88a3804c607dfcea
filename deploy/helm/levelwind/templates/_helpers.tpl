{{- define "levelwind.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "levelwind.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "levelwind.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "levelwind.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "levelwind.selector" -}}
app.kubernetes.io/name: {{ include "levelwind.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "levelwind.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "levelwind.selector" . }}
{{- end }}

{{- define "levelwind.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "levelwind.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "levelwind.fullname" .) }}
{{- end }}

{{- /* What the operator sets, and over it what the chart must know: the directory, the port, and who runs the pipeline. */}}
{{- define "levelwind.config" -}}
{{- $run := ternary "child" "elsewhere" (eq .Values.pipeline.run "child") }}
{{- $own := dict "state_dir" "/var/lib/levelwind" "pipeline" (dict "run" $run) "http" (dict "listen" (printf ":%d" (int .Values.port))) }}
{{- mergeOverwrite (deepCopy .Values.config) $own | toToml }}
{{- end }}

{{- define "levelwind.scheme" -}}
{{- if dig "http" "tls_file" "" .Values.config }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "levelwind.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "levelwind.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* What the pods of the daemon and of the pipeline share. */}}
{{- define "levelwind.podSpec" -}}
serviceAccountName: {{ include "levelwind.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "levelwind.podSecurityContext" . | nindent 2 }}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "levelwind.containerCommon" -}}
image: {{ include "levelwind.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "levelwind.securityContext" . | nindent 2 }}
{{- with .Values.env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: config, mountPath: /etc/levelwind/levelwind.toml, subPath: levelwind.toml, readOnly: true}
  {{- if .Values.secretName }}
  - {name: secrets, mountPath: /etc/levelwind/secrets, readOnly: true}
  {{- end }}
  - {name: state, mountPath: /var/lib/levelwind}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "levelwind.volumes" -}}
- name: config
  configMap:
    name: {{ include "levelwind.fullname" . }}
{{- if .Values.secretName }}
- name: secrets
  secret:
    secretName: {{ .Values.secretName }}
    defaultMode: 0440
{{- end }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.tmpSize }}
{{- if not .Values.persistence.enabled }}
- name: state
  emptyDir:
    sizeLimit: {{ .Values.persistence.size }}
{{- end }}
{{- end }}

{{- define "levelwind.volumeClaims" -}}
{{- if .Values.persistence.enabled }}
volumeClaimTemplates:
  - metadata:
      name: state
      labels:
        {{- include "levelwind.selector" . | nindent 8 }}
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .Values.persistence.storageClass }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests:
          storage: {{ .Values.persistence.size }}
{{- end }}
{{- end }}
