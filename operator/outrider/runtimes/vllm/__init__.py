"""vLLM: everything that only this runtime knows."""

from outrider.runtimes.runtime import Runtime
from outrider.runtimes.vllm.runtime import Vllm

RUNTIME: Runtime = Vllm()
