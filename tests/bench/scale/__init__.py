"""One operator with many models: `make bench-scale`.

Real: etcd, API server, the controllers of Deployments, the operator's process. Played: kubelet and engines.
"""
