{{/* Labels of everything in this chart. Call with the root context. */}}
{{- define "headroom.labels" -}}
app.kubernetes.io/part-of: headroom
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
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

{{/* Labels of the pods of a part: more from the values, but never others in place of Headroom's. Call with the root context and the part's values and name. */}}
{{- define "headroom.podLabels" -}}
{{- $ours := dict "app.kubernetes.io/name" (index . 2) | merge (include "headroom.labels" (index . 0) | fromYaml) }}
{{- merge $ours (index . 1).labels | toYaml }}
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

{{/* What every pod of Headroom has in common: an unprivileged uid, no privilege. */}}
{{- define "headroom.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* What every container of Headroom has in common: no capability, no way to gain one, nothing to write on. */}}
{{- define "headroom.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Two replicas share no node where another one is free. Call with the component's name. */}}
{{- define "headroom.spread" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: {{ . }}
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

{{/* Gives the directory in its argument to the agent, unless it has other content. A file system's own folder does not count. */}}
{{- define "headroom.ownDataDir" -}}
import os, sys; d = sys.argv[1]; os.stat(d).st_uid == 65532 or {*os.listdir(d)} - {'lost+found'} and sys.exit(d + ' (agent.dataDir) on this node is not empty and belongs to another user: name another directory, or give this one to uid 65532 by hand') or os.chown(d, 65532, 65532)
{{- end }}

{{/* Refuses a global value that nothing reads. A parent chart passes its own to all of its subcharts, so those pass. Call with the root context. */}}
{{- define "headroom.knownGlobals" -}}
{{- range $name := keys (omit .Values.global "imageRegistry" "imagePullSecrets") | sortAlpha }}
{{- if $.Chart.IsRoot }}{{ fail (printf "global.%s has no effect: this chart reads global.imageRegistry and global.imagePullSecrets" $name) }}{{ end }}
{{- end }}
{{- end }}

{{/* Names that values give and that must differ: two that write one object undo each other's work. Call with the root context. */}}
{{- define "headroom.distinctNames" -}}
{{- if and (eq .Release.Namespace "kube-system") (has .Values.scheduler.name (list "kube-scheduler" "kube-controller-manager")) }}
{{- fail (printf "scheduler.name %q is the Lease of the cluster's own component in namespace kube-system: choose another name or namespace" .Values.scheduler.name) }}
{{- end }}
{{- if hasPrefix "headroom-dashboard-" .Values.configMap.name }}
{{- fail (printf "ConfigMap %q is one of this chart's dashboards: choose another name for configMap.name" .Values.configMap.name) }}
{{- end }}
{{- end }}
