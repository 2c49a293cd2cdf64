{{/*
What Pod Security "restricted" asks of a pod, asked of podTemplate. The planned pod keeps to it, so an overlay
may leave everything out; but it must not take away what is there, by null or by $patch.
*/}}
{{- define "outrider.restrictedVariables" -}}
- name: pod
  expression: object.spec.?podTemplate.?spec.orValue({})
- name: annotations
  expression: object.spec.?podTemplate.?metadata.?annotations.orValue({})
- name: containers
  expression: variables.pod.?containers.orValue([]) + variables.pod.?initContainers.orValue([])
# The containers that the plan does not set.
- name: added
  expression: >-
    variables.pod.?containers.orValue([]).filter(each, each.?name.orValue('') != 'engine')
    + variables.pod.?initContainers.orValue([])
- name: contexts
  expression: >-
    ([variables.pod] + variables.containers).filter(each, has(each.securityContext))
    .map(each, each.securityContext)
{{- end -}}

{{- define "outrider.restrictedValidations" -}}
{{- $why := "; this cluster allows in podTemplate what Pod Security restricted allows" -}}
- expression: >-
    !('$patch' in variables.pod) && variables.containers.all(each, !('$patch' in each))
    && variables.contexts.all(each, each != null && !('$patch' in each)
    && !('$patch' in each.?capabilities.orValue({})) && !('$patch' in each.?seccompProfile.orValue({})))
  message: >-
    spec.podTemplate.spec: leave out $patch of the pod, of containers, of securityContext, of capabilities and of
    seccompProfile, and do not set securityContext to null{{ $why }}
- expression: >-
    ['hostNetwork', 'hostPID', 'hostIPC'].all(name, !(name in variables.pod) || variables.pod[name] == false)
  message: "spec.podTemplate.spec: leave out hostNetwork, hostPID and hostIPC{{ $why }}"
- expression: >-
    variables.containers.all(each, each.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0))
  message: "spec.podTemplate.spec.containers[].ports[]: leave out hostPort{{ $why }}"
- expression: >-
    variables.containers.all(each,
    [each.?livenessProbe, each.?readinessProbe, each.?startupProbe,
    each.?lifecycle.?postStart, each.?lifecycle.?preStop]
    .all(handler, handler.?httpGet.?host.orValue('') == '' && handler.?tcpSocket.?host.orValue('') == ''))
  message: "spec.podTemplate.spec.containers[]: leave out host in probes and in lifecycle{{ $why }}"
- expression: >-
    variables.pod.?volumes.orValue([]).all(volume, volume.all(key, key in ['name', '$patch', 'configMap', 'csi',
    'downwardAPI', 'emptyDir', 'ephemeral', 'image', 'persistentVolumeClaim', 'projected', 'secret']))
  message: >-
    spec.podTemplate.spec.volumes[]: use configMap, csi, downwardAPI, emptyDir, ephemeral, image,
    persistentVolumeClaim, projected or secret, and no other kind{{ $why }}
- expression: >-
    variables.contexts.all(each, each.?privileged.orValue(false) == false
    && each.?allowPrivilegeEscalation.orValue(false) == false
    && each.?procMount.orValue('Default') == 'Default'
    && each.?windowsOptions.?hostProcess.orValue(false) == false)
  message: >-
    securityContext in spec.podTemplate.spec: leave out privileged, allowPrivilegeEscalation, procMount and
    windowsOptions.hostProcess, or set them to false and procMount to Default{{ $why }}
- expression: >-
    variables.contexts.all(each, each.?runAsNonRoot.orValue(true) == true && each.?runAsUser.orValue(1) != 0)
  message: >-
    securityContext in spec.podTemplate.spec: leave runAsNonRoot true, and runAsUser other than 0{{ $why }}
- expression: >-
    variables.contexts.all(each, each.?capabilities.?add.orValue([]).all(name, name == 'NET_BIND_SERVICE')
    && each.?capabilities.?drop.orValue(['ALL']).exists(name, name == 'ALL'))
  message: >-
    securityContext.capabilities in spec.podTemplate.spec: add nothing but NET_BIND_SERVICE, and drop ALL
    {{- $why }}
- expression: >-
    variables.contexts.all(each, each.?seccompProfile.orValue({}) != null
    && each.?seccompProfile.?type.orValue('RuntimeDefault') in ['RuntimeDefault', 'Localhost']
    && each.?appArmorProfile.?type.orValue('RuntimeDefault') in ['RuntimeDefault', 'Localhost'])
    && variables.annotations.all(key, !key.startsWith('container.apparmor.security.beta.kubernetes.io/')
    || variables.annotations[key] == 'runtime/default' || variables.annotations[key].startsWith('localhost/'))
  message: >-
    seccompProfile and appArmorProfile in spec.podTemplate: use the types RuntimeDefault and Localhost{{ $why }}
- expression: >-
    variables.contexts.all(each, each.?seLinuxOptions.?user.orValue('') == ''
    && each.?seLinuxOptions.?role.orValue('') == '' && each.?seLinuxOptions.?type.orValue('')
    in ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t'])
  message: >-
    seLinuxOptions in spec.podTemplate.spec: leave out user and role, and use a type for containers{{ $why }}
- expression: >-
    variables.contexts.all(each, each.?sysctls.orValue([]).all(sysctl, sysctl.name in ['kernel.shm_rmid_forced',
    'net.ipv4.ip_local_port_range', 'net.ipv4.ip_local_reserved_ports', 'net.ipv4.ip_unprivileged_port_start',
    'net.ipv4.ping_group_range', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl',
    'net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem',
    'net.ipv4.tcp_syncookies']))
  message: "spec.podTemplate.spec.securityContext.sysctls: use safe ones only{{ $why }}"
- expression: >-
    variables.added.all(each, each.?securityContext.?allowPrivilegeEscalation.orValue(true) == false
    && each.?securityContext.?capabilities.?drop.orValue([]).exists(name, name == 'ALL'))
  message: >-
    spec.podTemplate.spec: every container beside engine needs securityContext with
    allowPrivilegeEscalation: false and capabilities: {drop: [ALL]}{{ $why }}
{{- end -}}
