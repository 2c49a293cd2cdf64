"""A real engine process: vLLM on CPU with the plugin, started by the plugin's own launcher."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from engine_image.build import UV
from examples.models.pad import WEIGHTS
from outrider.engine.signing import SigningKey
from outrider.runtimes.vllm.runner import TablePlace
from outrider_protocol.environment import CANDIDATES_VARIABLE
from outrider_protocol.releases import Runner
from outrider_protocol.request_limits import LIMITS_FILE
from tests.contract import asynchronous, helper_plugins
from tests.contract.engine_process import (
    CACHE,
    INTERPRETED,
    PYTHON,
    QUIET,
    Process,
    Start,
    fork_server,
    kill_group,
)
from tests.contract.signed import Signed
from tests.ports import free_port

MODELS = CACHE / "models"
HEAVY_TARGET = MODELS / "target"
"""Padded: its steps read as much memory as a real model's, as benchmarks want it."""
LIGHT_TARGET = WEIGHTS / "target"
"""As it was trained. It says the same with a twelfth of the weights."""
PLUGIN_SOURCE = Path(__file__).parents[2] / "engine_image"

SERVED_NAME = "tiny"
KEY = SigningKey.generate()
POD_UID = "0f6a3c1e-2b5d-4c8e-9a70-d1e2f3a4b5c6"
CANDIDATES = (0, 1, 2, 3, 5)
MAX_NUM_SEQS = 16
CACHE_BYTES = 256 * 2**20
"""Of a KV cache: more than `MAX_NUM_SEQS` of the longest requests of the padded target. vLLM writes all of it
at its start, and a GiB takes half a second."""
DTYPE = "float32"
"""Processors without AVX-512 compute bfloat16 three to five times as slowly, and its rounding hides more."""
STATIC_TABLE = [{"maxBatchSize": 8, "numSpeculativeTokens": 2}, {"numSpeculativeTokens": 0}]

READY_SECONDS = 600
REQUEST_SECONDS = 120.0
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Engines are asked over plain HTTP. Without it each client reads the list of authorities, for 30 ms."""

DRAFT_MODEL: Mapping[str, object] = {"method": "draft_model", "model": str(MODELS / "drafter")}
EAGLE3: Mapping[str, object] = {"method": "eagle3", "model": str(MODELS / "eagle3")}
NGRAM: Mapping[str, object] = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}


@dataclass(frozen=True, slots=True)
class Launch:
    """How an engine is started.

    speculation: vLLM's configuration without K and table; None for an engine without speculation.
    entry: what Python runs; by default what the engine container runs.
    table: by default as the operator launches on the runner.
    target: the folder of the model.
    flags: come after those that every engine has.
    plugins: of `helper_plugins`, beside Outrider's own.
    runner: V2 by Triton's interpreter.
    asynchronous: vLLM's own choice of scheduling, as on a GPU; False: synchronous, as vLLM has it on a CPU.
    """

    speculation: Mapping[str, object] | None = field(default_factory=lambda: DRAFT_MODEL)
    entry: Sequence[str] = ("-m", "outrider_engine.launch")
    candidates: Sequence[int] = CANDIDATES
    table: TablePlace | None = None
    target: Path = LIGHT_TARGET
    flags: Sequence[str] = ()
    plugins: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    runner: Runner = Runner.V1
    asynchronous: bool = False

    @property
    def table_place(self) -> TablePlace:
        """Where the engine gets its table."""
        return self.table or (TablePlace.FLAGS if self.runner is Runner.V2 else TablePlace.PLUGIN)

    @property
    def loaded_plugins(self) -> str:
        """VLLM_PLUGINS."""
        return helper_plugins.loaded((*self.plugins, *((asynchronous.NAME,) if self.asynchronous else ())))


_WORKER = "VLLM_ENABLE_V1_MULTIPROCESSING"
OWN_WORKER: Mapping[str, str] = {_WORKER: "1"}
"""A worker in a process of its own, as on several GPUs, for tests of what passes between both."""
IN_THE_CORE: Mapping[str, str] = {_WORKER: "0"}
"""The core computes in its own process, as on one GPU: this variable makes vLLM do so on a CPU. Core and
worker would look for each other's messages without a rest for a second after each one, which is two fifths of
the processor time of such an engine. Source: vLLM 0.32.0,
`vllm.platforms.cpu.CpuPlatform.check_and_update_config`,
`vllm.distributed.device_communicators.shm_broadcast.SpinCondition`."""

_UNSWEPT = {"OUTRIDER_SWEEP": "0"}
"""Engines of the tests start often, and few of them need a map."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One running engine and the way to talk to it."""

    url: str
    process: Process
    """What the container runs: the launcher, which becomes the API server."""
    public_key_file: Path
    log_file: Path
    first_state: Mapping[str, object]
    """The state as it was before anything was pushed."""

    def client(self) -> httpx.Client:
        """A client that signs as the operator does."""
        return signing_client(self.url)

    def state(self) -> dict[str, object]:
        """`GET /outrider/v1/state`."""
        with self.client() as client:
            response = client.get("/outrider/v1/state")
        response.raise_for_status()
        state: dict[str, object] = response.json()
        return state

    def limit(self, *limits: Mapping[str, object]) -> None:
        """Have these limit rules for requests that arrive later."""
        write_limits(self.public_key_file.parent, *limits)

    def put(self, body: Mapping[str, object]) -> httpx.Response:
        """`PUT /outrider/v1/schedule`."""
        with self.client() as client:
            return client.put("/outrider/v1/schedule", json=body)

    def complete(self, *, max_tokens: int, prompt: str = "def main(argv):\n    ") -> dict[str, object]:
        """One completion of exactly ``max_tokens`` tokens."""
        with self.client() as client:
            response = client.post("/v1/completions", json=completion_body(max_tokens, prompt))
        response.raise_for_status()
        answer: dict[str, object] = response.json()
        return answer

    def counter(self, name: str) -> float:
        """The sum of a counter over its labels, as the engine exports it now."""
        text = httpx.get(f"{self.url}/metrics", timeout=REQUEST_SECONDS, trust_env=False, verify=PLAIN).text
        values = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", text, flags=re.MULTILINE)
        if not values:
            raise AssertionError(f"the engine exports no {name}")
        return sum(float(value) for value in values)


def signing_client(
    url: str,
    *,
    key: SigningKey = KEY,
    pod_uid: str = POD_UID,
    limits: httpx.Limits = httpx.Limits(),  # noqa: B008 - it is frozen
) -> httpx.Client:
    """A client whose requests are signed with a key for a pod; by default so that the engine takes them."""
    return httpx.Client(
        base_url=url,
        auth=Signed(key, pod_uid),
        timeout=REQUEST_SECONDS,
        limits=limits,
        trust_env=False,
        verify=PLAIN,
    )


def completion_body(max_tokens: int, prompt: str, *, stream: bool = False) -> dict[str, object]:
    """A request of fixed length, so that every token can be accounted for."""
    return {
        "model": SERVED_NAME,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": stream,
    }


def launch_table(candidates: Sequence[int], max_num_seqs: int) -> list[list[int]]:
    """Every candidate on one batch size, the largest on all the rest."""
    rows = [[size, size, k] for size, k in enumerate(sorted(candidates), start=1)]
    rows[-1][1] = max_num_seqs
    return rows


def server_flags(
    *,
    target: Path,
    speculation: Mapping[str, object] | None,
    port: int,
    candidates: Sequence[int] = CANDIDATES,
    table: TablePlace = TablePlace.PLUGIN,
) -> list[str]:
    """The flags of vLLM's API server for a tiny model."""
    told: dict[str, object] = {**(speculation or {}), "num_speculative_tokens": max(candidates)}
    if table is TablePlace.FLAGS:
        told["num_speculative_tokens_per_batch_size"] = launch_table(candidates, MAX_NUM_SEQS)
    config = [] if speculation is None else ["--speculative-config", json.dumps(told)]
    return [
        *("--model", str(target)),
        *("--served-model-name", SERVED_NAME),
        *config,
        *("--max-num-seqs", str(MAX_NUM_SEQS)),
        *("--max-model-len", "512"),
        *("--kv-cache-memory-bytes", str(CACHE_BYTES)),
        *("--dtype", DTYPE),
        *("--host", "127.0.0.1"),
        *("--port", str(port)),
        "--enforce-eager",
    ]


def launcher(flags: Sequence[str], *, entry: Sequence[str] = Launch().entry) -> list[str]:
    """What Python runs in the engine container, or another entry."""
    return [*entry, *flags]


def environment(plugin: Path, **extra: str) -> dict[str, str]:
    """The environment of the engine container, plus what vLLM on CPU wants."""
    return {
        **os.environ,
        "PYTHONPATH": str(plugin),
        "VLLM_PLUGINS": helper_plugins.loaded(()),
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        **IN_THE_CORE,
        **QUIET,
        **extra,
    }


def on_v2(plugin: Path) -> dict[str, str]:
    """What an engine on a CPU needs for the V2 runner. vLLM takes a CPU for one with Triton where it finds
    the backend, so engines of V1 are not to find it."""
    return {
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "PYTHONPATH": f"{plugin}{os.pathsep}{plugin / _INTERPRETER}",
        **INTERPRETED,
    }


_INTERPRETER = "interpreter"
"""Folder in that of the plugin with the backend of Triton."""


def write_limits(folder: Path, *limits: Mapping[str, object]) -> None:
    """Write limit rules where an engine reads them, as the kubelet does: another file takes the place."""
    new = folder / f"{LIMITS_FILE}.new"
    new.write_text(json.dumps(limits))
    new.replace(folder / LIMITS_FILE)


def install_plugin(folder: Path) -> Path:
    """Build the plugin and install it, with its entry points, into a folder of its own."""
    install(folder, PLUGIN_SOURCE, PLUGIN_SOURCE / "protocol")
    install_interpreter(folder / _INTERPRETER)
    return folder


def install_interpreter(folder: Path) -> None:
    """Install Triton's backend for the interpreter into a folder of its own."""
    install(folder, PLUGIN_SOURCE / "testing" / "interpreted")


def install(folder: Path, *sources: Path) -> None:
    """Build packages of this repository and install them, with their entry points, into a folder."""
    command = [UV, "pip", "install", "--quiet", "--no-deps", "--python", str(PYTHON)]
    subprocess.run([*command, "--target", str(folder), *map(str, sources)], check=True)


@contextmanager
def running_engine(
    plugin: Path, folder: Path, launch: Launch | None = None, *, start: Start = fork_server
) -> Iterator[Engine]:
    """Start an engine, wait until it is healthy, and end it with its children."""
    launch = launch or Launch()
    key_file, schedule_file, log_file = folder / "key.pub", folder / "schedule.json", folder / "engine.log"
    key_file.write_text(KEY.public_pem)
    schedule_file.write_text(json.dumps(STATIC_TABLE))
    port = free_port()
    flags = server_flags(
        target=launch.target,
        speculation=launch.speculation,
        port=port,
        candidates=launch.candidates,
        table=launch.table_place,
    )
    own_table = {CANDIDATES_VARIABLE: ",".join(map(str, launch.candidates))}
    runner = on_v2(plugin) if launch.runner is Runner.V2 else {}
    variables = environment(
        plugin,
        OUTRIDER_PUBLIC_KEY_FILE=str(key_file),
        OUTRIDER_POD_UID=POD_UID,
        OUTRIDER_STATIC_SCHEDULE_FILE=str(schedule_file),
        **(own_table if launch.table_place is TablePlace.PLUGIN else {}),
        **(_UNSWEPT | runner | {"VLLM_PLUGINS": launch.loaded_plugins} | dict(launch.variables)),
    )
    with log_file.open("wb") as log:
        process = start(launcher([*flags, *launch.flags], entry=launch.entry), variables, log)
    with serving(process, port, key_file, log_file) as engine:
        yield engine


@contextmanager
def serving(process: Process, port: int, key_file: Path, log_file: Path) -> Iterator[Engine]:
    """An engine that begins, once it is healthy; it ends with the block, and its children too."""
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(process, url, log_file)
        with signing_client(url) as client:
            first = client.get("/outrider/v1/state")
        yield Engine(url, process, key_file, log_file, first.json())
    finally:
        end(process)


def wait_until_healthy(process: Process, url: str, log_file: Path, *, seconds: float = READY_SECONDS) -> None:
    """Raises AssertionError where it ends or that time goes by; the message has the end of its log."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the engine ended with {process.returncode}:\n{_tail(log_file)}")
        try:
            if httpx.get(f"{url}/health", timeout=5, trust_env=False, verify=PLAIN).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"the engine is not healthy after {seconds:g} s:\n{_tail(log_file)}")


def end(process: Process) -> None:
    """End the engine as Kubernetes does, and whatever a crash left of its process group."""
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=30)
    kill_group(process)
    process.wait(timeout=30)


def _tail(log_file: Path, lines: int = 40) -> str:
    with log_file.open(errors="replace") as log:
        return "".join(deque(log, maxlen=lines))
