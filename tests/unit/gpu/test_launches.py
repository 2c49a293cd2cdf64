"""What is launched on a GPU is what the operator launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider_protocol.methods import Method
from tests.gpu.engines import started_with
from tests.gpu.launches import LIVE, LIVE_V1, STATIC, Models, Rendered, arms

TABLE = "num_speculative_tokens_per_batch_size"
RUNNER, CANDIDATES = "VLLM_USE_V2_MODEL_RUNNER", "OUTRIDER_CANDIDATES"


def launched(method: Method, *, vllm: str = "0.32.0") -> dict[str, Rendered]:
    models = Models(Path("/m/target"), Path("/m/drafter"), method, (0, 1, 3), vllm)
    return arms(models, max_num_seqs=64, memory_share=0.2)


def speculation(rendered: Rendered) -> dict[str, object] | None:
    """vLLM's flag for it; None without any."""
    given = [word.partition("=")[2] for word in rendered.flags if word.startswith("--speculative-config=")]
    told: dict[str, object] | None = json.loads(given[0]) if given else None
    return told


def test_a_static_launch_has_the_largest_k_and_no_table() -> None:
    told = speculation(launched(Method.EAGLE3)[STATIC])
    assert told is not None
    assert told["num_speculative_tokens"] == 3
    assert TABLE not in told


def test_live_eagle3_has_its_table_in_the_flags_and_takes_the_runner_of_vllm() -> None:
    live = launched(Method.EAGLE3)[LIVE]
    assert TABLE in (speculation(live) or {})
    assert RUNNER not in live.variables


@pytest.mark.parametrize(("method", "arm"), [(Method.EAGLE3, LIVE_V1), (Method.DRAFT_MODEL, LIVE)])
def test_live_on_v1_gets_its_table_from_the_plugin(method: Method, arm: str) -> None:
    live = launched(method)[arm]
    assert TABLE not in (speculation(live) or {})
    assert (live.variables[RUNNER], live.variables[CANDIDATES]) == ("0", "0,1,3")


def test_engines_share_the_gpu_and_have_ports_of_this_machine() -> None:
    flags = started_with(launched(Method.EAGLE3)[LIVE], port=1234)
    assert "--gpu-memory-utilization=0.2" in flags
    assert [word for word in flags if word.startswith("--port")] == ["--port=1234"]
