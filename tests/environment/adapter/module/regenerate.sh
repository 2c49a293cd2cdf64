#!/bin/bash
# Rewrites go.mod and go.sum for the Kubernetes version of ../../go/kubernetes, whose programs are built
# before this one: what they have compiled is used again.
set -euo pipefail
cd "$(dirname "$0")"; ADAPTER=${1:-v0.12.0}; LIBRARY=${2:-v1.36.0}
V=$(sed -n 's|^replace k8s.io/api => k8s.io/api ||p' ../../go/kubernetes/go.mod)
rm -f go.mod go.sum; go mod init local/prometheus-adapter; go mod edit -go=1.26.0
go mod edit -require=sigs.k8s.io/prometheus-adapter@$ADAPTER -require=sigs.k8s.io/custom-metrics-apiserver@$LIBRARY
for m in api apimachinery apiserver client-go component-base metrics; do go mod edit -require=k8s.io/$m@$V; done
go mod tidy
