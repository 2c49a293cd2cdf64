"""The processes of a running engine, by the names that vLLM gives them."""

from __future__ import annotations

from pathlib import Path

from tests.contract.engine import Engine


def pids(engine: Engine, name: str) -> list[int]:
    """Processes of the engine whose title begins with this name, such as ``VLLM::EngineCore``."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended while it was looked at
        if group == engine.process.pid and title.startswith(name):
            found.append(int(folder.name))
    return found


def processor_seconds(pid: int) -> float:
    """What all threads of a process, as they are now, have had of the processors."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def connections(pid: int, port: int) -> int:
    """How many established connections to a local port a process holds."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {
        f"socket:[{row[9]}]" for row in rows if row[3] == "01" and int(row[1].split(":")[1], 16) == port
    }
    return sum(str(file.readlink()) in sockets for file in Path(f"/proc/{pid}/fd").iterdir())
