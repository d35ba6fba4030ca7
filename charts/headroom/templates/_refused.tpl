{{/* Refuses values that cannot be, each with a sentence, where values.schema.json could only report a failed rule. Call with the root context. */}}
{{- define "headroom.refusedValues" -}}
{{- include "headroom.refusedGlobals" . }}
{{- include "headroom.removedValues" . }}
{{- include "headroom.refusedNames" . }}
{{- include "headroom.refusedDataDir" . }}
{{- $manager := .Values.manager }}
{{- if lt (printf "%v %v %v" $manager.metrics.port $manager.webhook.port $manager.ui.port | splitList " " | uniq | len) 3 }}
{{- fail "manager.metrics.port, manager.webhook.port and manager.ui.port must differ" }}
{{- end }}
{{- if and $manager.hostNetwork $manager.ui.enabled }}
{{- fail "manager.hostNetwork: set manager.ui.enabled=false, because every process of the node could read the web page, which has no login" }}
{{- end }}
{{- if and .Values.gitops (or .Values.uninstall.withoutHelm .Values.uninstall.force) }}
{{- fail "gitops renders no hook, so uninstall.withoutHelm and uninstall.force have no effect: render the Job without gitops, as in docs/gitops.md" }}
{{- end }}
{{- if and $manager.webhook.issuer (ne $manager.webhook.certificates "cert-manager") }}
{{- fail "manager.webhook.issuer is for manager.webhook.certificates=cert-manager" }}
{{- end }}
{{- if and $manager.webhook.issuer (not $manager.webhook.issuer.name) }}
{{- fail "manager.webhook.issuer: set the name of the issuer, or leave out kind and group to use an authority of the webhook's own" }}
{{- end }}
{{- end }}

{{/* A global value that nothing reads. A parent chart passes its own to all of its subcharts, so those pass. */}}
{{- define "headroom.refusedGlobals" -}}
{{- range $name := keys (omit .Values.global "imageRegistry" "imagePullSecrets") | sortAlpha }}
{{- if not (contains "/charts/" $.Template.BasePath) }}{{ fail (printf "global.%s has no effect: this chart reads global.imageRegistry and global.imagePullSecrets" $name) }}{{ end }}
{{- end }}
{{- end }}

{{/*
Values that were removed, with what to use in their place: "a.b=c" this content alone, "a.b" all but an empty one, as in a copy of an older values.yaml.
`python -m tests.charts.schema` writes removed.json.
*/}}
{{- define "headroom.removedValues" -}}
{{- range $name, $sentence := .Files.Get "removed.json" | fromJson }}
{{- $content := $.Values }}
{{- range splitList "." (splitList "=" $name | first) }}
{{- $content = get ($content | default dict) . }}
{{- end }}
{{- if and $content (or (not (contains "=" $name)) (eq (toString $content) (splitList "=" $name | last))) }}{{ fail $sentence }}{{ end }}
{{- end }}
{{- end }}

{{/* Names of objects that another component writes: two writers undo each other's work. */}}
{{- define "headroom.refusedNames" -}}
{{- $scheduler := .Values.scheduler.name }}
{{- if eq $scheduler "default-scheduler" }}
{{- fail "scheduler.name default-scheduler is the cluster's own scheduler: choose another name" }}
{{- end }}
{{- if or (eq $scheduler "headroom-manager") (and (eq .Release.Namespace "kube-system") (has $scheduler (list "kube-scheduler" "kube-controller-manager"))) }}
{{- fail (printf "scheduler.name %q is the Lease of %s in namespace %s: choose another name or namespace" $scheduler (eq $scheduler "headroom-manager" | ternary "Headroom's manager" "the cluster's own component") .Release.Namespace) }}
{{- end }}
{{- if regexMatch "^(headroom-(last-good-config|scheduler|shadow-[0-9]+|dashboard-.*)|kube-root-ca[.]crt)$" .Values.configMap.name }}
{{- fail (printf "configMap.name %q is another ConfigMap of Headroom or of the cluster: choose another name" .Values.configMap.name) }}
{{- end }}
{{- $accounts := dict }}
{{- range $part := list "agent" "manager" "scheduler" }}
{{- $account := include "headroom.account" (list $ $part) }}
{{- with get $accounts $account }}
{{- fail (printf "%s and %s have the service account %q: give each one of its own, so that neither has the permissions of the other" . $part $account) }}
{{- end }}
{{- $_ := set $accounts $account $part }}
{{- end }}
{{- end }}

{{/* Directories that the agent must not own. */}}
{{- define "headroom.refusedDataDir" -}}
{{- $dir := .Values.agent.dataDir }}
{{- if not (regexMatch "^/[^/:\\s]+(/[^/:\\s]+)+$" $dir) }}
{{- fail (printf "agent.dataDir %q: set an absolute path of two or more directories, such as /var/lib/headroom" $dir) }}
{{- end }}
{{- if regexMatch "/[.][.]?(/|$)" $dir }}
{{- fail (printf "agent.dataDir %q: set a path without . and .." $dir) }}
{{- end }}
{{- if regexMatch "^/(bin|boot|dev|etc|home|lib[0-9x]*|proc|root|run|sbin|sys|tmp|usr|var/(cache|log|run|spool|tmp)|var/lib/(cni|containerd|containers|crio|docker|etcd|k3s|kubelet|rancher))(/|$)" $dir }}
{{- fail (printf "agent.dataDir %q is a directory of the system, and the agent would own it: set a directory for the agent alone, such as /var/lib/headroom" $dir) }}
{{- end }}
{{- end }}
