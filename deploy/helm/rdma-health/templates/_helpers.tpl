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

{{- /* The token that automounting would put into every container; only the agent needs it. */}}
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

{{- /* The aggregate condition and its aliases, as a list in CEL. values.schema.json allows no quote in a type. */}}
{{- define "rdma-health.positiveConditions" -}}
['rdma-health.io/RDMAReady'{{ range dig "kubernetes" "aliases" (list) .Values.agent.config }}, '{{ .type }}'{{ end }}]
{{- end }}

{{- /* Whether Nodes may have this product's taint. Only the taint needs the permission to patch Nodes. */}}
{{- define "rdma-health.patchNodes" -}}
{{- if or .Values.kubernetes.patchNodes (dig "kubernetes" "taint" "" .Values.agent.config) }}yes{{ end }}
{{- end }}

{{- /* File of the node's history; empty for `state: null`. */}}
{{- define "rdma-health.state" -}}
{{- if hasKey .Values.agent.config "state" }}{{ .Values.agent.config.state | default "" }}{{ else }}/var/lib/rdma-health/state{{ end }}
{{- end }}

{{- /* Whether the history is kept on the node. */}}
{{- define "rdma-health.hostState" -}}
{{- if and .Values.agent.hostState (include "rdma-health.state" .) }}yes{{ end }}
{{- end }}

{{- /* Name of the priority class. Kubernetes lets no one change the value of a class, so another value gets a class of another name. */}}
{{- define "rdma-health.priorityClass" -}}
{{- $class := .Values.priorityClass }}
{{- if and $class.name $class.create (ne (int $class.value) 1000000) }}{{ $class.name }}-{{ int $class.value }}{{ else }}{{ $class.name | default "" }}{{ end }}
{{- end }}

{{- /* The label `job` is `rdma-health`, whatever the objects are called: alerts and dashboards know the agents by it. */}}
{{- define "rdma-health.jobLabel" -}}
jobLabel: app.kubernetes.io/name
{{- end }}

{{- define "rdma-health.endpoint" -}}
port: metrics
interval: {{ .monitor.interval }}
{{- if and .root.Values.webConfig.secret .root.Values.webConfig.tls (not (hasKey (default dict .monitor.endpoint) "scheme")) }}
scheme: https
{{- end }}
relabelings:
  # Dashboards and alerts identify a node by this label.
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: node
{{- if not (hasKey (default dict .monitor.endpoint) "metricRelabelings") }}
metricRelabelings:
  # A node must not name series as alerts and recording rules do.
  - sourceLabels: [__name__]
    regex: (rdma|process|node_infiniband)_[a-z0-9_]+
    action: keep
{{- end }}
{{- with .monitor.endpoint }}
{{ toYaml . }}
{{- end }}
{{- end }}
