{{- /* Name of all objects. The pods of a JobSet append "-nodes-0-N-xxxxx". */}}
{{- define "rdma-job.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "rdma-job.selector" -}}
app.kubernetes.io/name: rdma-job
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rdma-job.labels" -}}
{{ include "rdma-job.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* Host name of the first pod, which is the same in every namespace. */}}
{{- define "rdma-job.first" -}}
{{- $name := include "rdma-job.name" . }}
{{- if eq .Values.controller "JobSet" }}{{ $name }}-nodes-0-0.{{ $name }}
{{- else }}{{ $name }}-0.{{ $name }}{{ end }}
{{- end }}

{{- /* The annotation that attaches a pod to its rails: each virtual function needs an entry. */}}
{{- define "rdma-job.networks" -}}
{{- $networks := list }}
{{- range $number, $rail := .Values.rails }}
{{- $attachment := ternary (printf "%s-rail-%d" (include "rdma-job.name" $) $number) (get $rail "attachment") (hasKey $rail "cni") }}
{{- if $attachment }}
{{- range until (int (default 1 $rail.count)) }}{{ $networks = append $networks $attachment }}{{ end }}
{{- end }}
{{- end }}
{{- join "," $networks }}
{{- end }}

{{- /* The resources of the rails. Two rails may have the same resource. */}}
{{- define "rdma-job.rails" -}}
{{- $sum := dict }}
{{- range .Values.rails }}
{{- $_ := set $sum .resource (add (get $sum .resource | default 0) (default 1 .count)) }}
{{- end }}
{{- range $resource, $count := $sum }}
{{ $resource }}: {{ $count | toString | quote }}
{{- end }}
{{- end }}

{{- define "rdma-job.security" -}}
{{- $base := dict "allowPrivilegeEscalation" false }}
{{- if and (eq .Values.mode "rdma") .Values.ipcLock }}
{{- $_ := set $base "capabilities" (dict "add" (list "IPC_LOCK")) }}
{{- end }}
{{- toYaml (mergeOverwrite $base .Values.securityContext) }}
{{- end }}

{{- /* The user of the init container `wait`, whose image does not run as root. IPC_LOCK lifts the memlock limit for root only. */}}
{{- define "rdma-job.wait-user" -}}
{{- $set := merge (dict) .Values.securityContext .Values.podSecurityContext }}
{{- if and .Values.ipcLock (not (hasKey $set "runAsUser")) (not (hasKey $set "runAsNonRoot")) -}}
runAsUser: 0
{{- end }}
{{- end }}
