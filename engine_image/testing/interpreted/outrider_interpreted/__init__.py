"""A Triton backend that compiles nothing, for kernels that Triton's interpreter runs on a CPU.

Triton finds it by the entry point `cpu` of the group `triton.backends`, and imports `compiler` and `driver`.
Source: Triton 3.7.1, `triton.backends._discover_backends`.
"""
