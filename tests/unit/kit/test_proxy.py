"""``kubectl proxy``, played by a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.kit.cluster import Place, RunFailed
from examples.kit.proxy import api_proxy


def a_kubectl(folder: Path, script: str) -> Place:
    kubectl = folder / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n{script}\n")
    kubectl.chmod(0o755)
    return Place(None, None, str(kubectl))


async def test_the_proxy_says_where_it_serves_and_ends_with_the_block(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    trap = f"trap 'touch {ended}; exit' TERM"
    serve = "echo Starting to serve on 127.0.0.1:8123; while :; do sleep 0.02; done"
    async with api_proxy(a_kubectl(tmp_path, f"{trap}; {serve}")) as url:
        assert url == "http://127.0.0.1:8123"
        assert not ended.exists()
    assert ended.exists()


async def test_a_proxy_that_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="kubectl proxy did not start: no such context"):
        async with api_proxy(a_kubectl(tmp_path, "echo no such context")):
            pytest.fail("there is no proxy")
