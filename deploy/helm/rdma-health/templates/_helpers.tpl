{{- define "rdma-health.name" -}}
{{ default "rdma-health" .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "rdma-health.selector" -}}
app.kubernetes.io/name: rdma-health
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rdma-health.labels" -}}
{{ include "rdma-health.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "rdma-health.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The token, for the agent alone: what automounting would put into every container. */}}
{{- define "rdma-health.token" -}}
- name: token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end }}

{{- /* Whether Nodes may have a taint of ours, which is the one thing that needs the permission to patch them. */}}
{{- define "rdma-health.patchNodes" -}}
{{- if or .Values.kubernetes.patchNodes (dig "kubernetes" "taint" "" .Values.agent.config) }}yes{{ end }}
{{- end }}

{{- /* Where the agent keeps what it remembers; empty where `state: null` says nowhere. */}}
{{- define "rdma-health.state" -}}
{{- if hasKey .Values.agent.config "state" }}{{ .Values.agent.config.state | default "" }}{{ else }}/var/lib/rdma-health/state{{ end }}
{{- end }}

{{- define "rdma-health.probe" -}}
{{- if and .root.Values.webConfig.secret .root.Values.webConfig.tls .root.Values.webConfig.clientCertificates }}
# The kubelet has no client certificate.
tcpSocket: {port: metrics}
{{- else }}
httpGet:
  path: {{ .path }}
  port: metrics
  scheme: {{ if and .root.Values.webConfig.secret .root.Values.webConfig.tls }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}
{{- end }}

{{- define "rdma-health.endpoint" -}}
port: metrics
interval: {{ .monitor.interval }}
{{- if and .root.Values.webConfig.secret .root.Values.webConfig.tls }}
scheme: https
{{- end }}
relabelings:
  # The dashboards and alerts know a node by this label.
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: node
{{- with .monitor.endpoint }}
{{ toYaml . }}
{{- end }}
{{- end }}
