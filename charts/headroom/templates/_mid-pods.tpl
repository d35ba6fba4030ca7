{{/* What admits the pods of Mid namespaces: policy, webhook, or nothing. Call with the root context. */}}
{{- define "headroom.midAdmission" -}}
{{- $hasPolicies := and (semverCompare ">=1.36.0-0" (include "headroom.kubeVersion" .)) (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") }}
{{- $chosen := .Values.midNamespaces.admission }}
{{- if not .Values.midNamespaces.enabled }}
{{- else if or (eq $chosen "policy") (and (eq $chosen "auto") $hasPolicies) }}policy
{{- else if and .Values.manager.enabled .Values.manager.webhook.enabled }}webhook
{{- end }}
{{- end }}

{{/* The selector of the namespaces with Mid pods. Call with the root context. */}}
{{- define "headroom.midNamespaceSelector" -}}
matchLabels:
  headroom.dev/tier: mid
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: [kube-system, {{ .Release.Namespace | quote }}]
{{- end }}

{{/* Match conditions of every policy and webhook for pods: the API object of a static pod is never changed or rejected. */}}
{{- define "headroom.notAStaticPod" -}}
- name: not-a-static-pod
  expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
{{- end }}

{{/* The beginning of a CEL conditional: the text of an amount of container c, if it is above 0. Call with requests or limits and the resource. */}}
{{- define "headroom.midStated" -}}
{{- $amount := printf "c.%s[%q]" (index . 0) (index . 1) -}}
{{ index . 1 | quote }} in c.{{ index . 0 }} && quantity(string({{ $amount }})).isGreaterThan(quantity("0")) ? string({{ $amount }}) : {{ end }}

{{/*
CEL variables of a pod: its containers with their amounts, its band by label, and its priority. Call with whether containers have paths, which
needs Kubernetes 1.33 or newer.
*/}}
{{- define "headroom.midContainers" -}}
- name: spec
  expression: dyn(object).spec
# An absent list of amounts is empty.
- name: containers
  expression: >-
    {{- range $index, $kind := list "containers" "initContainers" }}
    {{ if $index }}+ {{ end }}(has(variables.spec.{{ $kind }}) ? variables.spec.{{ $kind }} : []).{{ if $ }}transformList(i, c, {
    "path": dyn("/spec/{{ $kind }}/" + string(i) + "/resources"),{{ else }}map(c, {{ "{" }}{{ end }} "name": dyn(c.name),
    "requests": dyn(has(c.resources) && has(c.resources.requests) ? c.resources.requests : {}),
    "limits": dyn(has(c.resources) && has(c.resources.limits) ? c.resources.limits : {})})
    {{- end }}
- name: band
  expression: >-
    has(object.metadata.labels) && "koordinator.sh/priority-class" in object.metadata.labels ?
    object.metadata.labels["koordinator.sh/priority-class"] : "koord-mid"
- name: priority
  expression: "has(object.spec.priority) ? object.spec.priority : 0"
{{- end }}

{{/*
CEL variables of a pod: those above, its Mid amounts and native limits, and the obstacle to its translation ("": none). The rules are those of
crds/mid_translation.py, and tests/crds/mid_translation.yaml has the cases of both.
*/}}
{{- define "headroom.midVariables" -}}
{{ include "headroom.midContainers" true }}
{{- range $name := list "cpu" "memory" }}
{{- $mid := printf "kubernetes.io/mid-%s" $name }}
# For each container the texts of its amounts: Mid request, else Mid limit; native request, else native limit; native limit. "": none above 0.
- name: stated_{{ $name }}
  expression: >-
    variables.containers.map(c, {"path": string(c.path),
    "mid": {{ range $kind := list "requests" "limits" }}{{ include "headroom.midStated" (list $kind $mid) }}{{ end }}"",
    "native": {{ range $kind := list "requests" "limits" }}{{ include "headroom.midStated" (list $kind $name) }}{{ end }}"",
    "limit": {{ include "headroom.midStated" (list "limits" $name) }}""})
# Of the containers with an amount: Mid amount and native limit.
- name: {{ $name }}
  expression: >-
    variables.stated_{{ $name }}.filter(s, s.mid != "" || s.native != "").map(s, {"path": s.path,
    {{- if eq $name "cpu" }}
    "mid": s.mid != "" ? s.mid : string(int(quantity(s.native).asApproximateFloat() * 1000.0 + 0.5)),
    "limit": s.limit != "" ? s.limit : s.mid == "" ? s.native : quantity(s.mid).isInteger() ? string(quantity(s.mid).asInteger()) + "m" :
    string(int(quantity(s.mid).asApproximateFloat()) + 1) + "m"})
    {{- else }}
    "mid": s.mid != "" ? s.mid : quantity(s.native).isInteger() ? s.native :
    string(int(quantity(s.native).asApproximateFloat()) + 1),
    "limit": s.limit != "" ? s.limit : s.mid == "" ? s.native : quantity(s.mid).isInteger() ? s.mid :
    string(int(quantity(s.mid).asApproximateFloat()) + 1)})
    {{- end }}
- name: differing_{{ $name }}
  expression: >-
    variables.containers.filter(c, {{ $mid | quote }} in c.requests && {{ $mid | quote }} in c.limits &&
    quantity(string(c.requests[{{ $mid | quote }}])).isGreaterThan(quantity("0")) &&
    quantity(string(c.limits[{{ $mid | quote }}])).isGreaterThan(quantity("0")) &&
    quantity(string(c.requests[{{ $mid | quote }}])).compareTo(quantity(string(c.limits[{{ $mid | quote }}]))) != 0)
{{- end }}
- name: obstacle
  expression: >-
    variables.band != "koord-mid" ? "its label koordinator.sh/priority-class is " + variables.band :
    [[9000, 9999], [5000, 5999], [3000, 3999]].exists(b, b[0] <= variables.priority && variables.priority <= b[1]) ||
    variables.priority > 1000000000 ? "its PriorityClass " + (has(object.spec.priorityClassName) ?
    object.spec.priorityClassName : "") + " is of another band" :
    has(variables.spec.resources) && ["requests", "limits"].exists(k, k in variables.spec.resources &&
    ["cpu", "memory"].exists(name, name in variables.spec.resources[k])) ?
    "spec.resources cannot have Mid amounts; set requests and limits of its containers" :
    {{- range $name := list "cpu" "memory" }}
    size(variables.differing_{{ $name }}) > 0 ? "container " + string(variables.differing_{{ $name }}[0].name) +
    ": request and limit of kubernetes.io/mid-{{ $name }} differ" :
    {{- end }}
    size(variables.cpu) + size(variables.memory) == 0 ? "none of its containers has a request or limit of cpu or memory" : ""
{{- end }}
