"""Versions, paths, and the environment in which every command of the set-up runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine_image.releases import CPU

KUBERNETES = "v1.36.3"
KIND = "v0.33.0"
HELM = "v4.2.4"
UV = "0.13.8"
VALE = "v3.21.0"
GO_AT_LEAST = (1, 26)
CLUSTER = "outrider"

OPERATOR_IMAGE = "outrider/operator:dev"
ENGINE_IMAGE = "outrider/engine-cpu:dev"
TWIN_IMAGE = "outrider/engine-twin:dev"
SGLANG_IMAGE = "outrider/engine-sglang:dev"
PLUGIN_IMAGE = "outrider/plugin:dev"
STOCK_IMAGE = f"outrider/vllm-cpu:v{CPU}"
"""vLLM without Outrider's plugin, in place of vLLM's own image."""
PROMETHEUS_IMAGE = "outrider/prometheus:dev"
ADAPTER_IMAGE = "outrider/prometheus-adapter:dev"
DEBIAN_IMAGE = "outrider/debian:bookworm"
PYTHON_IMAGE = "outrider/python:3.11"
NODE_BASE_IMAGE = "outrider/node-base:bookworm"
NODE_IMAGE = f"outrider/node:{KUBERNETES}"


@dataclass(frozen=True)
class Place:
    """Where things are: the repository, and one cache outside it that survives `make clean`."""

    root: Path
    cache: Path

    @property
    def here(self) -> Path:
        return self.root / "tests" / "environment"

    @property
    def bin(self) -> Path:
        return self.cache / "bin"

    @property
    def tools(self) -> Path:
        """A private virtual environment with pip and uv: Debian's own Python accepts no packages."""
        return self.cache / "tools"

    @property
    def uv(self) -> Path:
        return self.tools / "bin" / "uv"

    @property
    def engine_env(self) -> Path:
        return self.cache / "engine-env"

    @property
    def sglang_env(self) -> Path:
        """SGLang and the packages that `engine_env` lacks, in a folder of it, which pods have mounted."""
        return self.engine_env / "sglang"

    @property
    def vllm_cache(self) -> Path:
        """What vLLM learnt of the tiny models' classes, in the folder that pods have mounted.

        Without it each engine asks a process of its own, which imports vLLM anew.
        """
        return self.engine_env / "cache"

    @property
    def models(self) -> Path:
        return self.cache / "models"

    @property
    def build(self) -> Path:
        return self.cache / "build"

    @property
    def logs(self) -> Path:
        return self.cache / "logs"

    @property
    def docker(self) -> Path:
        return self.cache / "docker"

    @property
    def kubeconfig(self) -> Path:
        return self.cache / "kubeconfig"

    def make_folders(self) -> None:
        # The cluster mounts these two: they keep their place for as long as the cache lives.
        for folder in (self.bin, self.build, self.logs, self.docker, self.engine_env, self.models):
            folder.mkdir(parents=True, exist_ok=True)


def locate(environment: Mapping[str, str]) -> Place:
    """The place that OUTRIDER_CACHE names, by default ~/.cache/outrider."""
    cache = environment.get("OUTRIDER_CACHE") or str(Path.home() / ".cache" / "outrider")
    return Place(root=Path(__file__).resolve().parents[2], cache=Path(cache).resolve())


def command_environment(place: Place, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of every command: our tools first, Go's usual folder last, no foreign venv."""
    kept = {name: value for name, value in environment.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    path = [
        str(place.bin),
        str(place.tools / "bin"),
        kept.get("PATH", os.defpath),
        "/usr/local/go/bin",
        "/usr/sbin",
    ]
    return {
        **kept,
        "PATH": ":".join(path),
        "OUTRIDER_CACHE": str(place.cache),
        "KUBECONFIG": str(place.kubeconfig),
        "UV_SYSTEM_CERTS": "true",
        "DEBIAN_FRONTEND": "noninteractive",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }


@dataclass(frozen=True)
class Shell:
    """Short questions to the machine; the answers decide what is present."""

    environment: Mapping[str, str]

    def succeeds(self, *command: str | Path, timeout: float = 20.0) -> bool:
        return self._ask(command, timeout) is not None

    def output(self, *command: str | Path, timeout: float = 20.0) -> str:
        """Standard output without its last newline; empty when the command fails or is missing."""
        return self._ask(command, timeout) or ""

    def _ask(self, command: tuple[str | Path, ...], timeout: float) -> str | None:
        try:
            answer = subprocess.run(
                [str(word) for word in command],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None
