"""A forked program finds what it would find if Python had been started for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.contract import engine_process
from tests.contract.engine_process import PYTHON

pytestmark = pytest.mark.contract

SERVER, ENTRY = engine_process.API_SERVER, "vllm.entrypoints.launchers.api_server.entry"

TOLD = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "variables": dict(os.environ), "input": sys.stdin.read(),
    "leads": os.getpgrp() == os.getpid() == os.getsid(0), "begun": list(sys.modules).count("begun"),
}))
"""

SPAWN = """
import json, multiprocessing, os, sys

def tell(sending):
    sending.send([os.getppid(), "begun" in sys.modules, os.environ["TOLD"], "torch" in sys.modules])
    sys.exit(3)

if __name__ == "__main__":
    import begun
    os.environ["TOLD"] = "later"
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    spawned = context.Process(target=tell, args=(sending,))
    spawned.start()
    told = receiving.recv()
    spawned.join()
    print(json.dumps([told[0] == os.getpid(), *told[1:], spawned.exitcode]))
"""

HOLD = """
import fcntl, os, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
os.fork()
time.sleep(900)
"""


def test_arguments_variables_and_paths_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import begun")
    (tmp_path / "begun.py").touch()
    (tmp_path / "told.py").write_text(TOLD)
    variables = {"PYTHONPATH": str(tmp_path), "LC_CTYPE": "C.UTF-8", "TOLD": "so"}
    for arguments in (["-m", "told", "--flag"], ["-c", TOLD, "word"], [str(tmp_path / "told.py"), "word"]):
        forked = engine_process.run(arguments, variables, timeout=300)
        began = subprocess.run(
            [str(PYTHON), *arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        told = json.loads(forked.log)
        assert told == json.loads(began.stdout) | {"leads": True}
        assert told["begun"] == 1


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("pass", 0),
        ("raise SystemExit(78)", 78),
        ("raise ValueError", 1),
        (f"import os; os.kill(os.getpid(), {signal.SIGKILL})", -signal.SIGKILL),
        ("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(3)'])", 3),
    ],
    ids=["done", "exit", "exception", "signal", "replaced"],
)
def test_its_exit_code_is_told(code: str, ended: int) -> None:
    assert engine_process.run(["-c", code], os.environ, timeout=300).returncode == ended


def test_what_it_spawns_is_its_child_and_finds_a_python_that_begins(tmp_path: Path) -> None:
    """With the packages, the environment of that moment and nothing else of its parent."""
    (tmp_path / "begun.py").touch()
    (tmp_path / "spawn.py").write_text(SPAWN)
    start = partial(engine_process.fork, spawns=True)
    ended = engine_process.run([str(tmp_path / "spawn.py")], os.environ, timeout=300, start=start)
    assert json.loads(ended.log) == [True, False, "later", True, 3]


def test_a_server_finds_vllm_imported_and_its_own_plugins_still_to_come(tmp_path: Path) -> None:
    code = f"import json, sys; print(json.dumps([{ENTRY!r} in sys.modules, {SERVER!r} in sys.modules]))"
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = engine_process.run(["-c", code], variables, timeout=300, start=engine_process.fork_server)
    assert json.loads(ended.log.splitlines()[-1]) == [True, False]
    loaded = "from vllm import plugins; print(plugins.plugins_loaded)"
    ended = engine_process.run(["-c", loaded], variables, timeout=300, start=engine_process.fork_server)
    assert ended.log.splitlines()[-1] == "False"


@pytest.mark.parametrize(("threads", "warm"), [("1", "True"), ("2", "False")])
def test_a_program_with_other_variables_than_the_packages_were_imported_under_begins_anew(
    threads: str, warm: str
) -> None:
    code = "import sys; print('torch' in sys.modules)"
    assert engine_process.run(["-c", code], {"OMP_NUM_THREADS": threads}, timeout=300).log.strip() == warm


def test_what_runs_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """Its lock is free once both have ended."""
    lock = tmp_path / "lock"
    with pytest.raises(subprocess.TimeoutExpired):
        engine_process.run(["-c", HOLD, str(lock)], os.environ, timeout=2)
    subprocess.run(["flock", str(lock), "true"], timeout=60, check=True)
    assert engine_process.run(["-c", "pass"], os.environ, timeout=300).returncode == 0, (
        "the next one is forked"
    )
