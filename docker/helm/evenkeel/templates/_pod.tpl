{{- define "evenkeel.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "evenkeel.mounts" -}}
- {name: config, mountPath: /etc/evenkeel, readOnly: true}
{{- range $number, $each := .Values.files }}
- {name: files-{{ $number }}, mountPath: {{ $each.path }}, readOnly: true}
{{- end }}
{{- end -}}
