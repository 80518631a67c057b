{{- /* The template of the pods, the same for every controller. */}}
{{- define "rdma-job.pod" -}}
{{- $rdma := eq .Values.mode "rdma" }}
{{- if and $rdma (not .Values.rails) }}{{ fail "mode: rdma needs at least one entry in rails; see values.yaml" }}{{ end }}
{{- $networks := include "rdma-job.networks" . }}
metadata:
  labels:
    {{- include "rdma-job.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- if or (and $rdma $networks) .Values.podAnnotations }}
  annotations:
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- if and $rdma $networks }}
    k8s.v1.cni.cncf.io/networks: {{ $networks }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "rdma-job.name" . }}
  # The job does not use the API server.
  automountServiceAccountToken: false
  {{- if eq .Values.controller "Job" }}
  subdomain: {{ include "rdma-job.name" . }}
  {{- end }}
  {{- if ne .Values.controller "StatefulSet" }}
  restartPolicy: {{ ternary "OnFailure" "Never" (eq .Values.controller "PyTorchJob") }}
  {{- end }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "rdma-job.selector" . | nindent 14 }}
  initContainers:
    # So the image of the job needs no rdma-health.
    - name: rdma-health
      image: {{ .Values.tool.image }}
      imagePullPolicy: {{ .Values.tool.pullPolicy }}
      command: [/usr/bin/rdma-health, copy, /opt/rdma-health]
      securityContext: {allowPrivilegeEscalation: false}
      volumeMounts:
        - {name: rdma-health, mountPath: /opt/rdma-health}
    {{- if $rdma }}
    # The kubelet gives the devices of an init container to the containers after it.
    - name: wait
      image: {{ .Values.tool.image }}
      imagePullPolicy: {{ .Values.tool.pullPolicy }}
      command: [/usr/bin/rdma-health, wait, --timeout, {{ .Values.tool.wait }}, --memlock, {{ .Values.tool.memlock | quote }}]
      # As the job's container: the memlock limit depends on the user and the capability.
      securityContext:
        {{- include "rdma-job.security" . | nindent 8 }}
        {{- with include "rdma-job.wait-user" . }}{{ . | nindent 8 }}{{ end }}
      resources:
        requests: {{- include "rdma-job.rails" . | nindent 10 }}
        limits: {{- include "rdma-job.rails" . | nindent 10 }}
    {{- end }}
  containers:
    - name: {{ ternary "pytorch" "job" (eq .Values.controller "PyTorchJob") }}
      image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command:
        - /opt/rdma-health/rdma-health
        - run
        - --mode
        - {{ .Values.mode }}
        {{- if and $rdma $networks }}
        - --network-status
        - /etc/podinfo/network-status
        {{- end }}
        - --
        {{- if .Values.command }}
        {{- toYaml .Values.command | nindent 8 }}
        {{- else if eq .Values.controller "StatefulSet" }}
        - sleep
        - infinity
        {{- else }}
        - torchrun
        - /opt/rdma-job/all_reduce.py
        - --expect
        - {{ .Values.mode }}
        - --rdma-health
        - /opt/rdma-health/rdma-health
        {{- with .Values.benchmark }}{{ toYaml . | nindent 8 }}{{ end }}
        {{- end }}
      {{- if or (ne .Values.controller "PyTorchJob") .Values.env }}
      env:
        {{- if ne .Values.controller "PyTorchJob" }}
        # torchrun reads its options from these.
        - {name: PET_NNODES, value: {{ .Values.nodes | quote }}}
        - {name: PET_NPROC_PER_NODE, value: {{ .Values.gpus | quote }}}
        - {name: PET_RDZV_BACKEND, value: c10d}
        - {name: PET_RDZV_ENDPOINT, value: "{{ include "rdma-job.first" . }}:{{ .Values.port }}"}
        - {name: PET_RDZV_ID, value: {{ include "rdma-job.name" . }}}
        {{- end }}
        {{- with .Values.env }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- end }}
      securityContext: {{- include "rdma-job.security" . | nindent 8 }}
      {{- $resources := deepCopy .Values.resources }}
      {{- $devices := dict .Values.gpuResource (.Values.gpus | toString) }}
      {{- if $rdma }}{{ $devices = merge $devices (include "rdma-job.rails" . | fromYaml) }}{{ end }}
      resources:
        requests: {{- merge (dict) $devices (default (dict) $resources.requests) | toYaml | nindent 10 }}
        limits: {{- merge (dict) $devices (default (dict) $resources.limits) | toYaml | nindent 10 }}
      volumeMounts:
        - {name: rdma-health, mountPath: /opt/rdma-health, readOnly: true}
        - {name: scripts, mountPath: /opt/rdma-job, readOnly: true}
        - {name: shm, mountPath: /dev/shm}
        {{- if and $rdma $networks }}
        - {name: podinfo, mountPath: /etc/podinfo, readOnly: true}
        {{- end }}
        {{- with .Values.volumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - {name: rdma-health, emptyDir: {}}
    - {name: scripts, configMap: {name: {{ include "rdma-job.name" . }}}}
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ .Values.sharedMemory }}}}
    {{- if and $rdma $networks }}
    # Which interface of the pod belongs to which device, from Multus.
    - name: podinfo
      downwardAPI:
        items:
          - path: network-status
            fieldRef: {fieldPath: "metadata.annotations['k8s.v1.cni.cncf.io/network-status']"}
    {{- end }}
    {{- with .Values.volumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}
