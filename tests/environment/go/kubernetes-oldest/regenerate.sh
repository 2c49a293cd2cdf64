#!/bin/bash
# Rewrites go.mod and go.sum for the oldest Kubernetes that the chart takes; ../kubernetes says how.
set -euo pipefail
cd "$(dirname "$0")"; V=${1:-v1.30.14}; S=v0.${V#v1.}
rm -f go.mod go.sum; go mod init outrider.dev/tools/oldest; go mod edit -go=1.26.0 -require=k8s.io/kubernetes@$V
M=$(go mod download -json k8s.io/kubernetes@$V | jq -r .GoMod)
for p in $(go mod edit -json "$M" | jq -r '.Require[]|select(.Version=="v0.0.0")|.Path'); do go mod edit -replace=$p=$p@$S; done
go mod edit -tool=k8s.io/kubernetes/cmd/kube-apiserver
go mod tidy
