"""Python runs this at every start where the simulated engine is installed.

vLLM loads the plugins that VLLM_PLUGINS names, and the operator names its own, or none for a stock engine.
Without this one vLLM would compute, although its name says that it does not.
"""

import gc
import os

if os.environ.get("OUTRIDER_TWIN"):
    # Half of a start is the import of modules, and a tenth of that is garbage collection.
    gc.set_threshold(100_000)
    if "VLLM_PLUGINS" in os.environ:
        _names = [name for name in os.environ["VLLM_PLUGINS"].split(",") if name and name != "outrider_twin"]
        os.environ["VLLM_PLUGINS"] = ",".join([*_names, "outrider_twin"])
