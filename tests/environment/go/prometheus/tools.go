//go:build tools

// Package tools pins the Prometheus server.
package tools

import _ "github.com/prometheus/prometheus/cmd/prometheus"
