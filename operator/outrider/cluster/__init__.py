"""All Kubernetes I/O: server-side apply, prune, Lease, Events, status."""
