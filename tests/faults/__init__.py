"""The operator on purpose broken: killed at every call, and answered wrongly. `make faults`.

Real: etcd, API server, the controllers of Deployments and of garbage, the operator's process. Played: kubelet
and engines, by the kit of `tests/bench/scale`.
"""
