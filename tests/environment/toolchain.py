"""Stages that put programs on the machine: Debian packages, uv, Python environments, Go binaries, models."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path

from tests.environment.choice import Cluster, Setup
from tests.environment.place import GO_AT_LEAST, HELM, KIND, KUBERNETES, UV, VALE
from tests.environment.records import fingerprint
from tests.environment.runner import Stage, StageError, Work

PACKAGES = ("gcc", "g++", "libgomp1", "libnuma1", "make", "python3-venv")
LOCAL_CLUSTER_PACKAGES = ("iptables", "mmdebstrap")
FREE_GIGABYTES = 25
DEBIAN_PYTHON = Path("/usr/bin/python3.11")

KUBERNETES_PROGRAMS = (
    "kubectl", "kubeadm", "kubelet", "kube-proxy", "kube-scheduler", "kube-controller-manager",
    "kube-apiserver",
)  # fmt: skip
CPU_LANE = "all cores"
LEARN_MODEL_CLASSES = """
from vllm import ModelRegistry
for name in ("LlamaForCausalLM", "Eagle3LlamaForCausalLM"):
    ModelRegistry.models[name].inspect_model_cls()
"""


def machine(setup: Setup) -> Stage:
    """Refuses early what would fail late."""

    def check(work: Work) -> None:
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            raise StageError(f"this is {platform.system()} {platform.machine()}, not Linux x86_64")
        if setup.choice.cluster is Cluster.LOCAL and os.geteuid() != 0:
            raise StageError("the local cluster starts a Docker Engine, which needs root")
        if not DEBIAN_PYTHON.exists():
            raise StageError(f"{DEBIAN_PYTHON} is missing: the engine's environment is built on it")
        version = setup.shell.output("go", "env", "GOVERSION")
        found = re.match(r"go(\d+)\.(\d+)", version)
        if not found or (int(found[1]), int(found[2])) < GO_AT_LEAST:
            raise StageError(
                f"Go {'.'.join(map(str, GO_AT_LEAST))} or newer is missing (found: {version or 'none'})"
            )
        free = shutil.disk_usage(setup.place.cache).free // 10**9
        if not setup.place.uv.exists() and free < FREE_GIGABYTES:
            raise StageError(f"{free} GB are free at {setup.place.cache}, {FREE_GIGABYTES} GB are needed")
        work.progress(f"{version}, {os.cpu_count()} cores, {free} GB free")

    return Stage(
        name="machine",
        run=check,
        key=lambda: "always",
        present=lambda: False,
        remedy="install what the line above names (Debian 12 has Python 3.11; Go from its own download page) "
        "or point OUTRIDER_CACHE to a larger disk, then run the same command again",
    )


def packages(setup: Setup) -> Stage:
    local = setup.choice.cluster is Cluster.LOCAL
    names = sorted(PACKAGES + (LOCAL_CLUSTER_PACKAGES if local else ()))

    def missing() -> list[str]:
        status = "${Package} ${db:Status-Status}\n"
        known = setup.shell.output("dpkg-query", "-W", "-f", status)
        installed = {row.split()[0] for row in known.splitlines() if row.endswith(" installed")}
        wanted = [name for name in names if name not in installed]
        # A Docker Engine from elsewhere serves as well, and the two packages conflict.
        return [*wanted, "docker.io"] if local and not _found(setup, "dockerd") else wanted

    def install(work: Work) -> None:
        wanted = missing()
        if not wanted:
            work.progress("all present")
            return
        work.progress(f"{len(wanted)} to install")
        work.run("apt-get", "update", "-q")
        work.run("apt-get", "install", "-q", "-y", "--no-install-recommends", *wanted)
        work.progress(f"installed {len(wanted)}")

    return Stage(
        name="debian packages",
        run=install,
        key=lambda: fingerprint(*names),
        present=lambda: not missing(),
        needs=("machine",),
        remedy="run as root with a reachable Debian mirror (`apt-get update` must work), "
        f"or install these yourself: {' '.join(names)}{' docker.io' if local else ''}",
    )


def uv(setup: Setup) -> Stage:
    tools = setup.place.tools

    def install(work: Work) -> None:
        work.run("/usr/bin/python3", "-m", "venv", tools)
        work.run(tools / "bin" / "python", "-m", "pip", "install", "--quiet", f"uv=={UV}")
        work.progress(f"uv {UV}")

    return Stage(
        name="uv",
        run=install,
        key=lambda: UV,
        present=lambda: setup.shell.succeeds(setup.place.uv, "--version"),
        needs=("debian packages",),
        remedy="a Python package index must be reachable by pip (see the log for its address and error)",
    )


def workspace(setup: Setup) -> Stage:
    root = setup.place.root
    described = [root / "uv.lock", root / "pyproject.toml"]
    described += [
        root / member / "pyproject.toml"
        for member in (
            "operator",
            "operator/lab",
            "engine_image",
            "engine_image/protocol",
            "engine_image/testing/interpreted",
            "engine_image/testing/sglang_cpu",
            "engine_image/testing/twin",
        )
    ]

    def sync(work: Work) -> None:
        work.run(setup.place.uv, "sync", "--frozen", cwd=root)
        work.progress("synced with uv.lock")

    return Stage(
        name="workspace",
        run=sync,
        key=lambda: fingerprint(str(root), *described),
        present=lambda: (root / ".venv" / "bin" / "python").exists(),
        needs=("uv",),
        remedy="a Python package index must be reachable; `uv sync --frozen` shows the error in full",
    )


def vale(setup: Setup) -> Stage:
    """The prose linter. The last of what `make check` needs."""
    package = f"github.com/vale-cli/vale/v3/cmd/vale@{VALE}"
    program = setup.place.bin / "vale"

    def build(work: Work) -> None:
        # Its grammars of programming languages are written in C.
        flags = ["-trimpath", "-ldflags", f"-s -w -X main.version={VALE}"]
        work.run("go", "install", *flags, package, env={"GOBIN": str(setup.place.bin), "CGO_ENABLED": "1"})
        work.progress(f"Vale {VALE}")

    return Stage(
        name="vale",
        run=build,
        key=lambda: package,
        present=program.exists,
        needs=("debian packages", "workspace"),
        lane=CPU_LANE,
        remedy="the Go module proxy must be reachable; run again to resume, Go keeps what it has compiled",
    )


def engine_environment(setup: Setup) -> Stage:
    place = setup.place
    lock = place.root / "engine_image" / "cpu" / "requirements.txt"
    python = place.engine_env / "bin" / "python"

    def install(work: Work) -> None:
        # In place, never removed and made anew: the cluster's node has this very folder mounted.
        if not python.exists():
            work.run(
                place.uv, "venv", "--quiet", "--allow-existing", "--python", DEBIAN_PYTHON, place.engine_env
            )
        work.progress(f"vLLM: {sum(' --hash' not in row for row in lock.open())} packages, then bytecode")
        # Pods cannot write bytecode beside the sources, and without it every start compiles 20 000 files.
        work.run(place.uv, "pip", "sync", "--python", python, "--compile-bytecode", "--require-hashes", lock)
        work.progress("vLLM's cache of model classes")
        work.run(python, "-c", LEARN_MODEL_CLASSES, env={"VLLM_CACHE_ROOT": str(place.vllm_cache)})
        # vLLM lets only their owner read them, who is not the user of pods.
        work.run("chmod", "-R", "a+rX", place.vllm_cache)
        work.progress("vLLM for the CPU, compiled")

    return Stage(
        name="engine environment",
        run=install,
        key=lambda: fingerprint(lock),
        present=lambda: (
            python.exists()
            and (place.vllm_cache / "modelinfos").exists()
            and setup.shell.succeeds(
                python,
                "-c",
                "import importlib.util as u; assert u.find_spec('vllm') and u.find_spec('torch')",
            )
        ),
        needs=("uv",),
        remedy="a Python package index must be reachable and 12 GB free in the cache; run again to resume",
    )


def sglang_environment(setup: Setup) -> Stage:
    """SGLang's own wheel on top of the engine's environment, which has the torch and transformers for it."""
    place = setup.place
    lock = place.root / "engine_image" / "testing" / "sglang_cpu" / "requirements.txt"

    def install(work: Work) -> None:
        work.progress("SGLang, then bytecode")
        target = ("--python", place.engine_env / "bin" / "python", "--target", place.sglang_env)
        work.run(
            place.uv, "pip", "install", "--quiet", *target, "--no-deps", "--compile-bytecode",
            "--require-hashes", "--requirement", lock,
        )  # fmt: skip
        work.progress("SGLang without its kernels, compiled")

    return Stage(
        name="sglang environment",
        run=install,
        key=lambda: fingerprint(lock),
        present=(place.sglang_env / "sglang" / "launch_server.py").exists,
        needs=("models",),
        remedy="a Python package index must be reachable and 1 GB free in the cache; run again to resume",
    )


def models(setup: Setup) -> Stage:
    """Pads the shipped weights, so that a decoding step moves as much memory as a real model's."""
    place = setup.place
    source = place.root / "examples" / "models"
    python = place.engine_env / "bin" / "python"
    names = ("target", "drafter", "eagle3", "light")

    def pad(work: Work) -> None:
        work.progress("padding target and drafters")
        work.run(python, "-m", "examples.models.pad", "--output", place.models, cwd=place.root)
        work.progress("target and drafters")

    return Stage(
        name="models",
        run=pad,
        key=lambda: fingerprint(source),
        present=lambda: all((place.models / name / "config.json").exists() for name in names),
        needs=("engine environment",),
        remedy="the trained weights must be in examples/models; the log names what is missing",
    )


def kubernetes_programs(setup: Setup) -> Stage:
    """Kubernetes from its Go module. Where the node image is published, only kubectl is needed."""
    local = setup.choice.cluster is Cluster.LOCAL
    wanted = KUBERNETES_PROGRAMS if local else KUBERNETES_PROGRAMS[:1]
    module = setup.place.here / "go" / "kubernetes"

    def build(work: Work) -> None:
        for number, program in enumerate(wanted):
            work.progress(f"built {number} of {len(wanted)}")
            _go_build(work, module, f"k8s.io/kubernetes/cmd/{program}", setup.place.bin / program)
        work.progress(f"built {len(wanted)} of {len(wanted)}")

    return Stage(
        name="kubernetes programs",
        run=build,
        key=lambda: fingerprint(*wanted, _link_flags(), module),
        present=lambda: all((setup.place.bin / program).exists() for program in wanted),
        needs=("machine",),
        lane=CPU_LANE,
        remedy="the Go module proxy must be reachable; run again to resume, Go keeps what it has compiled",
    )


def cluster_programs(setup: Setup) -> Stage:
    """kind, Helm and Prometheus; etcd, CoreDNS and pause only for a node image built here.

    Prometheus is built too because Debian's own cannot discover pods.
    """
    place = setup.place
    modules = {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"}
    if setup.choice.cluster is Cluster.LOCAL:
        modules |= {"etcd": "go.etcd.io/etcd/server/v3", "coredns": ".", "pause": "."}
    installed = {"kind": f"sigs.k8s.io/kind@{KIND}", "helm": f"helm.sh/helm/v4/cmd/helm@{HELM}"}
    total = len(modules) + len(installed)

    def build(work: Work) -> None:
        built = 0
        for program, package in installed.items():
            work.progress(f"built {built} of {total}, {program}")
            flags = ["-trimpath", "-ldflags", _link_flags()]
            work.run("go", "install", *flags, package, env={"GOBIN": str(place.bin)})
            built += 1
        for program, package in modules.items():
            work.progress(f"built {built} of {total}, {program}")
            _go_build(work, place.here / "go" / program, package, place.bin / program)
            built += 1
        work.progress(f"built {total} of {total}")

    return Stage(
        name="cluster programs",
        run=build,
        key=lambda: fingerprint(*installed.values(), *(place.here / "go" / name for name in modules)),
        present=lambda: all((place.bin / name).exists() for name in (*installed, *modules)),
        needs=("machine",),
        lane=CPU_LANE,
        remedy="the Go module proxy must be reachable; run again to resume, Go keeps what it has compiled",
    )


def promtool(setup: Setup) -> Stage:
    """Prometheus' tester of rules, on the modules of the server, so most of it is compiled by then."""
    return _one_program(
        setup,
        "promtool",
        module=setup.place.here / "go" / "prometheus",
        package="github.com/prometheus/prometheus/cmd/promtool",
        program="promtool",
        needs="cluster programs",
    )


def adapter_program(setup: Setup) -> Stage:
    """prometheus-adapter on the modules of the Kubernetes programs, so most of it is compiled by then."""
    return _one_program(
        setup,
        "adapter program",
        module=setup.place.here / "adapter" / "module",
        package=".",
        program="prometheus-adapter",
        needs="kubernetes programs",
    )


def _one_program(setup: Setup, name: str, *, module: Path, package: str, program: str, needs: str) -> Stage:
    """Built once the stage is through that compiles most of its modules."""
    target = setup.place.bin / program

    def build(work: Work) -> None:
        _go_build(work, module, package, target)
        work.progress("built")

    return Stage(
        name=name,
        run=build,
        key=lambda: fingerprint(_link_flags(), module),
        present=target.exists,
        needs=(needs,),
        lane=CPU_LANE,
        remedy="the Go module proxy must be reachable; run again to resume, Go keeps what it has compiled",
    )


def _link_flags() -> str:
    """kubeadm, kubelet and Helm read the Kubernetes version that is linked in."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    values = {
        "gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitCommit": "local",
        "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    variables = [
        f"{package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in values.items()
    ]
    variables.append(f"helm.sh/helm/v4/internal/version.version={HELM}")
    return " ".join(["-s", "-w", *(f"-X {variable}" for variable in variables)])


def _go_build(work: Work, module: Path, package: str, output: Path) -> None:
    # The tags leave Prometheus with Kubernetes as its only way to find targets; others ignore them.
    tags = ["-tags", "remove_all_sd,enable_kubernetes_sd"]
    flags = ["-mod=readonly", "-trimpath", *tags, "-ldflags", _link_flags()]
    work.run("go", "build", *flags, "-o", output, package, cwd=module)


def _found(setup: Setup, program: str) -> bool:
    return shutil.which(program, path=setup.shell.environment["PATH"]) is not None
