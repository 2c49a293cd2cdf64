"""Python runs this at every start where the package is installed.

SGLang loads the plugins that SGLANG_PLUGINS names, and the operator names its own, or none for a stock
engine. Without this one SGLang would take an attention backend that does not draft.
"""

import gc
import os

# Half of a start is the import of modules, and a tenth of that is garbage collection.
gc.set_threshold(100_000)
os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
if "SGLANG_PLUGINS" in os.environ:
    _names = [name for name in os.environ["SGLANG_PLUGINS"].split(",") if name and name != "outrider_cpu"]
    os.environ["SGLANG_PLUGINS"] = ",".join([*_names, "outrider_cpu"])
