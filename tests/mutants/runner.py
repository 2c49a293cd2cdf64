"""Test runs in fresh processes that have the libraries loaded already: most end sooner than that takes."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
PACKAGES = ("operator", "engine_image", "engine_image/protocol")
LIBRARIES = (
    *("pytest", "hypothesis.strategies", "numpy", "pydantic", "yaml", "httpx", "aiohttp.web", "kopf"),
    *("kubernetes.aio.client", "prometheus_client", "tenacity", "cosmic_ray.mutating"),
)
"""None of the project's own: those must come from the copy."""

_FRESH = multiprocessing.get_context("forkserver")
_FRESH.set_forkserver_preload(list(LIBRARIES))


def passes(tree: Path, tests: str, *, log: Path, limit: float | None = None) -> bool:
    """Whether these tests pass in this copy of the tree; not when they take longer than `limit` seconds.

    tests: arguments of pytest, as in a shell.
    log: gets what it prints.
    """
    # Bytecode of a file that is about to change again would be mistaken for that of the next.
    keep_bytecode = limit is None
    process = _FRESH.Process(target=_run, args=(tree, tests, log, keep_bytecode))
    process.start()
    process.join(limit)
    if process.exitcode is None and process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode == pytest.ExitCode.OK


def _run(tree: Path, tests: str, log: Path, keep_bytecode: bool) -> None:
    os.setsid()  # so that a test that hangs ends with all that it started
    os.chdir(tree)
    sys.dont_write_bytecode = not keep_bytecode
    sys.path[:0] = [str(tree / package) for package in PACKAGES]
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.exit(pytest.main([*OPTIONS, *shlex.split(tests)]))
