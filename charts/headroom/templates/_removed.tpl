{{/*
Refuses values that were removed, with what to use in their place: "a.b=c" this content alone, "a.b" all but an empty one, as in a copy of an older values.yaml.
`python -m tests.charts.schema` writes removed.json. Call with the root context.
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
