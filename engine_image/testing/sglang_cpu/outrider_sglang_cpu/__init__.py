"""SGLang on a CPU without AMX, see `outrider_sglang_cpu.register`."""
