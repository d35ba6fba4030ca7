{{/* Labels of everything in this chart: commonLabels, but never others in place of Headroom's. Call with the root context. */}}
{{- define "headroom.labels" -}}
{{- include "headroom.labelsWith" (list . dict) }}
{{- end }}

{{/* The same and more. Call with the root context and the labels. */}}
{{- define "headroom.labelsWith" -}}
{{- $root := index . 0 }}
{{- $ours := dict
  "app.kubernetes.io/part-of" "headroom"
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service
  "app.kubernetes.io/instance" $root.Release.Name
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) }}
{{- merge $ours (index . 1) (omit $root.Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/component") | toYaml }}
{{- end }}

{{/* The ConfigMaps in which the manager keeps accounts of shadow mode, as a YAML list; crds/shadow_accounts.py names them too. */}}
{{- define "headroom.shadowConfigMaps" -}}
[{{ range $share, $_ := until 16 }}{{ if $share }}, {{ end }}headroom-shadow-{{ $share }}{{ end }}]
{{- end }}

{{/* Matches a repository that begins with a host, as in docker: one with a dot or a port, or localhost. */}}
{{- define "headroom.host" -}}
^(localhost|[^/]*[.:][^/]*)/
{{- end }}

{{/* An image reference. Call with the root context and "agent" or "manager". */}}
{{- define "headroom.image" -}}
{{- $root := index . 0 }}
{{- $image := index $root.Values.image (index . 1) }}
{{- $registry := $root.Values.global.imageRegistry | default $root.Values.image.registry }}
{{- if not (regexMatch (include "headroom.host" .) $image.repository) }}
{{- if not $registry }}
{{- fail "No registry has Headroom's images: push them to yours as in docs/install.md, and set image.registry to it, for example --set image.registry=registry.example.com/team. Use image.registry=localhost for images that you have loaded onto every node." }}
{{- end }}
{{- $registry }}/
{{- end }}
{{- $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The imagePullSecrets of a pod, global ones and ours; empty without any. */}}
{{- define "headroom.imagePullSecrets" -}}
{{- range $index, $secret := concat .Values.global.imagePullSecrets .Values.imagePullSecrets | uniq }}
{{- if not $index }}imagePullSecrets:{{ end }}
- {{ if kindIs "string" $secret }}{{ dict "name" $secret | toJson }}{{ else }}{{ toJson $secret }}{{ end }}
{{- end }}
{{- end }}

{{/* The version of the cluster as numbers alone: v1.33+ and v1.33.5-gke.1 are 1.33 and 1.33.5. Call with the root context. */}}
{{- define "headroom.kubeVersion" -}}
{{ regexFind "[0-9]+([.][0-9]+)*" .Capabilities.KubeVersion.Version }}
{{- end }}

{{/*
The kube-scheduler image. Without a tag or digest it gets the version of the cluster, without a vendor's suffix (v1.33.5-gke.1 has no image), and with a
patch where none is given (--kube-version 1.33).
*/}}
{{- define "headroom.kubeSchedulerImage" -}}
{{- $registry := .Values.global.imageRegistry -}}
{{- $image := .Values.scheduler.image | default (printf "%s/kube-scheduler" ($registry | default "registry.k8s.io")) -}}
{{- if and $registry (not (regexMatch (include "headroom.host" .) $image)) }}{{ $registry }}/{{ end }}{{ $image }}
{{- if not (regexMatch "(@sha256:|:[^/]*$)" $image) }}:{{ with semver (include "headroom.kubeVersion" .) }}v{{ .Major }}.{{ .Minor }}.{{ .Patch }}{{ end }}{{ end }}
{{- end }}

{{/* Labels of the pods of a part: more from the values, but never others in place of Headroom's. Call with the root context and the part. */}}
{{- define "headroom.podLabels" -}}
{{- $name := dict "app.kubernetes.io/name" (printf "headroom-%s" (index . 1)) }}
{{- include "headroom.labelsWith" (list (index . 0) (merge $name (index (index . 0).Values (index . 1)).podLabels)) }}
{{- end }}

{{/* The name of a part's service account. Call with the root context and the part. */}}
{{- define "headroom.account" -}}
{{- (index (index . 0).Values (index . 1)).serviceAccount.name | default (printf "headroom-%s" (index . 1)) }}
{{- end }}

{{/* That account, unless another owner creates it. Call with the root context and the part. */}}
{{- define "headroom.serviceAccount" -}}
{{- $account := (index (index . 0).Values (index . 1)).serviceAccount }}
{{- if $account.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "headroom.account" . | quote }}
  namespace: {{ (index . 0).Release.Namespace | quote }}
  labels: {{- include "headroom.labels" (index . 0) | nindent 4 }}
  {{- with $account.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
# Pods mount a token of their own where one is needed.
automountServiceAccountToken: false
{{- end }}
{{- end }}

{{/* The fields of every pod, those of hooks and tests too. Call with the root context and the part with the values. */}}
{{- define "headroom.anyPod" -}}
{{- $values := index (index . 0).Values (index . 1) -}}
automountServiceAccountToken: false
priorityClassName: {{ $values.priorityClassName | quote }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $tolerations := $values.tolerations | default list }}
{{- if (index . 0).Values.manager.hotNodes.enabled }}
{{- $all := false }}
{{- range $tolerations }}
{{- $all = or $all (not (or .key .effect)) }}
{{- end }}
{{- $tolerations = ternary $tolerations (append $tolerations (dict "key" "headroom.dev/hot" "operator" "Exists")) $all }}
{{- end }}
{{- with $tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "headroom.imagePullSecrets" (index . 0) }}
{{ . }}
{{- end }}
{{- with $values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The fields of a part's pods. Call with the root context and the part. */}}
{{- define "headroom.pod" -}}
{{- $root := index . 0 }}
{{- $part := index . 1 }}
{{- $values := index $root.Values $part -}}
serviceAccountName: {{ include "headroom.account" . | quote }}
{{ include "headroom.anyPod" . }}
{{- with $values.affinity | default (ne $part "agent" | ternary (include "headroom.spread" $part | fromYaml) dict) }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $ours := dict "matchLabels" (dict "app.kubernetes.io/name" (printf "headroom-%s" $part)) }}
  - {{- hasKey . "labelSelector" | ternary . (merge (dict "labelSelector" $ours) .) | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- if $values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with $values.dnsPolicy | default (and $values.hostNetwork "ClusterFirstWithHostNet") }}
dnsPolicy: {{ . }}
{{- end }}
{{- end }}

{{/*
The service account's token: valid for the API server only, expires after an hour, renewed by kubelet, mounted where every
client expects it. Mounted only where a container uses the API server, so it is not mounted by default.
*/}}
{{- define "headroom.tokenVolume" -}}
name: api-access
projected:
  defaultMode: 0444
  sources:
    - serviceAccountToken:
        path: token
        expirationSeconds: 3600
    - configMap:
        name: kube-root-ca.crt
        items:
          - key: ca.crt
            path: ca.crt
    - downwardAPI:
        items:
          - path: namespace
            fieldRef:
              apiVersion: v1
              fieldPath: metadata.namespace
{{- end }}
{{- define "headroom.tokenMount" -}}
name: api-access
mountPath: /var/run/secrets/kubernetes.io/serviceaccount
readOnly: true
{{- end }}

{{/* The securityContext of a container, if any. Call with the values of its part. */}}
{{- define "headroom.containerSecurity" -}}
{{- with .securityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Two replicas share no node where another one is free. Call with the part. */}}
{{- define "headroom.spread" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: headroom-{{ . }}
{{- end }}

{{/* Calls the extender and fails unless it answers 200. Call with the path. */}}
{{- define "headroom.extenderProbe" -}}
import socket, sys; s = socket.socket(); s.settimeout(4); s.connect_ex(('127.0.0.1', 9820)) and sys.exit('nothing listens on 127.0.0.1:9820'); s.sendall(b'GET {{ . }} HTTP/1.0\r\n\r\n'); a = s.recv(4096); sys.exit(None if b' 200 ' in a[:16] else a.decode())
{{- end }}

{{/* "true" where others than kube-scheduler are to reach the extender's metrics port. Call with the root context. */}}
{{- define "headroom.schedulerMetrics" -}}
{{- if or .Values.scheduler.watcher.enabled .Values.scheduler.metrics.enabled .Values.prometheus.podMonitor .Values.prometheus.serviceMonitor -}}
true
{{- end -}}
{{- end }}

{{/* The extender's flags, for itself and for the container that checks them. */}}
{{- define "headroom.extenderFlags" -}}
# Loopback: only the kube-scheduler in this pod can connect.
- --listen=127.0.0.1:9820
- --mode={{ .Values.scheduler.mode }}
- --log-format=json
# The replica with the leading kube-scheduler reclaims borrowed resources and writes the usage of quotas.
- --leader-lease={{ .Release.Namespace }}/{{ .Values.scheduler.name }}
- --reclaim-for={{ .Values.scheduler.name }}
{{- if .Values.scheduler.watcher.enabled }}
- --watcher
{{- end }}
{{- if include "headroom.schedulerMetrics" . }}
- --metrics-listen=:{{ .Values.scheduler.metrics.port }}
{{- end }}
{{- if .Values.scheduler.profile }}
- --profile=/etc/headroom/profile.yaml
{{- end }}
{{- with .Values.scheduler.extender.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Gives the directory in its argument to the agent, unless it has other content. A file system's own folder does not count. Call with the root context. */}}
{{- define "headroom.ownDataDir" -}}
{{- $user := dig "podSecurityContext" "runAsUser" 65532 .Values.agent | int }}
{{- $group := dig "podSecurityContext" "runAsGroup" 65532 .Values.agent | int -}}
import os, sys; d = sys.argv[1]; os.stat(d).st_uid == {{ $user }} or {*os.listdir(d)} - {'lost+found'} and sys.exit(d + ' (agent.dataDir) on this node is not empty and belongs to another user: name another directory, or give this one to uid {{ $user }} by hand') or os.chown(d, {{ $user }}, {{ $group }})
{{- end }}
