"""What the start of an engine says, read from lines in vLLM's own formats."""

from __future__ import annotations

from tests.gpu.start_log import read_start

V2_OF_0_32 = """
INFO [model_runner.py:424] Model loading took 15.87 GiB memory and 3.123456 seconds
INFO [gpu_worker.py:759] Available KV cache memory: 4.31 GiB
INFO [kv_cache_utils.py] GPU KV cache size: 35,296 tokens, Maximum concurrency for 8,192 tokens
INFO [model_runner.py:1127] Graph capturing finished in 11 secs, took 1.21 GiB
INFO [core.py] init engine (profile, create kv cache, warmup model) took 33.50 s (compilation: 14.25 s)
INFO [gpu_check.py:33] gpu-check: scheduler AsyncScheduler
"""
V2_OF_0_26 = """
INFO [model_runner.py:305] Model loading took 15.87 GiB and 3.123456 seconds
INFO [kv_cache_utils.py:2177] GPU KV cache size: 35,296 tokens
INFO [core.py:340] init engine (profile, create kv cache, warmup model) took 33.50 s
"""
WITH_ENCODER = (
    "init engine (profile, create kv cache, warmup model) took 40.00 s "
    "(compilation: 10.00 s — language_model: 8.00 s, encoder: 2.00 s)"
)


def test_every_figure_of_a_start_is_read() -> None:
    found = read_start(V2_OF_0_32)
    assert (found.loaded_gib, found.load_seconds) == (15.87, 3.123456)
    assert (found.graph_gib, found.graph_seconds) == (1.21, 11)
    assert (found.engine_seconds, found.compile_seconds) == (19.25, 14.25)
    assert found.cache_tokens == 35_296
    assert found.asynchronous is True


def test_the_formats_of_the_oldest_release_are_read() -> None:
    found = read_start(V2_OF_0_26)
    assert (found.loaded_gib, found.cache_tokens, found.engine_seconds) == (15.87, 35_296, 33.5)
    assert found.compile_seconds is None


def test_compilation_is_not_part_of_the_start_of_an_engine_with_an_encoder() -> None:
    found = read_start(WITH_ENCODER)
    assert (found.engine_seconds, found.compile_seconds) == (30.0, 10.0)


def test_what_a_log_does_not_say_is_not_known() -> None:
    found = read_start("INFO nothing of interest")
    assert found.graph_gib is None
    assert found.asynchronous is None


def test_a_capture_that_frees_memory_has_a_negative_size() -> None:
    assert read_start("Graph capturing finished in 0 secs, took -0.02 GiB").graph_gib == -0.02
