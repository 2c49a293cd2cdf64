"""SGLang: everything that only this runtime knows."""

from outrider.runtimes.runtime import Runtime
from outrider.runtimes.sglang.runtime import Sglang

RUNTIME: Runtime = Sglang()
