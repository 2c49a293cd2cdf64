"""Stages that build images: the node's, Prometheus, and the project's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from engine_image.build import (
    DEFAULT_VERSIONS,
    DOCKERFILES,
    PACKAGES,
    Target,
    default_base,
    find_plugin,
    library_commands,
)
from tests.environment.choice import Cluster, Setup
from tests.environment.place import (
    ADAPTER_IMAGE,
    DEBIAN_IMAGE,
    ENGINE_IMAGE,
    KUBERNETES,
    NODE_BASE_IMAGE,
    NODE_IMAGE,
    OPERATOR_IMAGE,
    PLUGIN_IMAGE,
    PROMETHEUS_IMAGE,
    PYTHON_IMAGE,
    SGLANG_IMAGE,
    STOCK_IMAGE,
    TWIN_IMAGE,
    Place,
)
from tests.environment.records import fingerprint
from tests.environment.runner import Stage, Work

CONTENT_LABEL = "outrider.dev/content"
PYTHON_VERSION = "3.11"
WHEEL_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
BUILD_REMEDY = "see the log; inside `docker build` only a Debian mirror must be reachable"


def debian_image(setup: Setup) -> Stage:
    """The base of all images: Debian's minimal system, from its packages or from the registry."""
    local = setup.choice.cluster is Cluster.LOCAL
    # That of the engine's image, by its digest alone: `docker tag` takes no name with both.
    name, _, digest = str(default_base(Target.CPU)).partition("@")
    debian = f"{name.partition(':')[0]}@{digest}"

    def build(work: Work) -> None:
        if not local:
            work.run("docker", "pull", debian)
            work.run("docker", "tag", debian, DEBIAN_IMAGE)
            work.progress("pulled")
            return
        tar = setup.place.build / "debian.tar"
        leave_out = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "locale", "doc")]
        work.progress("installing the minimal system")
        work.run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", *leave_out, "bookworm", tar)
        work.run("docker", "import", tar, DEBIAN_IMAGE)
        tar.unlink()
        work.progress("built")

    return Stage(
        name="debian image",
        run=build,
        key=lambda: f"bookworm {setup.choice.cluster}",
        present=lambda: _exists(setup, DEBIAN_IMAGE),
        needs=("docker engine",),
        remedy="a Debian mirror must be reachable (`apt-get update` must work)",
    )


def base_images(setup: Setup) -> Stage:
    """Debian with Python, and with what a node needs: all that takes a Debian mirror and no code of ours."""
    here = setup.place.here / "images"
    wanted = {PYTHON_IMAGE: here / "python"}
    if setup.choice.cluster is Cluster.LOCAL:
        wanted[NODE_BASE_IMAGE] = here / "node-base"

    def build(work: Work) -> None:
        for number, (tag, folder) in enumerate(wanted.items()):
            work.progress(f"built {number} of {len(wanted)}")
            _build(setup, work, tag, folder, fingerprint(folder), BASE=DEBIAN_IMAGE)
        work.progress(f"built {len(wanted)}")

    return Stage(
        name="base images",
        run=build,
        key=lambda: fingerprint(here),
        present=lambda: all(_content(setup, tag) == fingerprint(folder) for tag, folder in wanted.items()),
        needs=("debian image",),
        remedy=BUILD_REMEDY,
    )


def node_image(setup: Setup) -> Stage:
    """kind's node with the control plane's images inside. Built here, or fetched where it is published."""
    place = setup.place
    local = setup.choice.cluster is Cluster.LOCAL
    parts = [place.here / "node", place.here / "go", place.here / "images" / "node-base"]
    parts.append(place.here / "images" / "kube-proxy")

    def content() -> str:
        return fingerprint(KUBERNETES, *parts) if local else KUBERNETES

    def build(work: Work) -> None:
        if not local:
            work.run("docker", "pull", f"kindest/node:{KUBERNETES}")
            work.run("docker", "tag", f"kindest/node:{KUBERNETES}", NODE_IMAGE)
            work.progress("pulled")
            return
        images = setup.shell.output(
            place.bin / "kubeadm", "config", "images", "list", "--kubernetes-version", KUBERNETES
        ).split()
        context = _empty(place.build / "node")
        work.progress("control plane images")
        for image in images:
            program = image.split("/")[-1].split(":")[0]
            _program_image(setup, work, program, image)
        (context / "images").mkdir()
        work.run("docker", "save", "-o", context / "images" / "kube.tar", *images)
        work.progress("node image")
        shutil.copytree(place.here / "node", context, dirs_exist_ok=True)
        pause = next(image for image in images if "/pause:" in image)
        configuration = context / "containerd.toml"
        configuration.write_text(configuration.read_text().replace("@PAUSE@", pause))
        (context / "version").write_text(KUBERNETES)
        for program in ("kubelet", "kubeadm", "kubectl"):
            _link(place.bin / program, context)
        _build(setup, work, NODE_IMAGE, context, content(), BASE=NODE_BASE_IMAGE)
        shutil.rmtree(context)
        work.progress("built")

    return Stage(
        name="node image",
        run=build,
        key=content,
        present=lambda: _exists(setup, NODE_IMAGE),
        needs=("kubernetes programs", "cluster programs", "base images") if local else ("docker engine",),
        remedy=BUILD_REMEDY,
    )


def prometheus_image(setup: Setup) -> Stage:
    """The server that this set-up built; its configuration is mounted by the pod."""
    source = setup.place.here / "go" / "prometheus"
    return _server_image(
        setup, "prometheus", PROMETHEUS_IMAGE, program="prometheus", source=source, needs="cluster programs"
    )


def adapter_image(setup: Setup) -> Stage:
    """Prometheus as external metrics of Kubernetes."""
    source = setup.place.here / "adapter" / "module"
    return _server_image(
        setup, "adapter", ADAPTER_IMAGE, program="prometheus-adapter", source=source, needs="adapter program"
    )


def _server_image(setup: Setup, name: str, tag: str, *, program: str, source: Path, needs: str) -> Stage:
    """One program alone on an empty base. source: its module's folder. needs: the stage that builds it."""

    def build(work: Work) -> None:
        work.progress("one program, no base")
        _program_image(setup, work, program, tag)

    return Stage(
        name=f"{name} image",
        run=build,
        key=lambda: fingerprint(source),
        present=lambda: _exists(setup, tag),
        needs=("docker engine", needs),
        remedy=BUILD_REMEDY,
    )


def _program_image(setup: Setup, work: Work, program: str, tag: str) -> None:
    """An image of one static program on an empty base; kube-proxy brings iptables."""
    context = _empty(setup.place.build / f"image-{program}")
    _link(setup.place.bin / program, context)
    if program == "kube-proxy":
        shutil.copy(setup.place.here / "images" / "kube-proxy" / "Dockerfile", context)
    else:
        # kubeadm names the programs of its static pods itself.
        entry = "" if program.startswith(("kube", "etcd")) else f'ENTRYPOINT ["/usr/local/bin/{program}"]\n'
        (context / "Dockerfile").write_text(
            f"FROM scratch\nENV PATH=/usr/local/bin\nCOPY {program} /usr/local/bin/{program}\n{entry}"
        )
    work.run("docker", "build", "--quiet", "--tag", tag, context)
    shutil.rmtree(context)


def project_images(setup: Setup) -> Stage:
    """Operator, engines and plugin. Wheels are fetched here, so a build needs no Python index inside."""
    place = setup.place
    operator = [place.root / "operator" / name for name in ("outrider", "pyproject.toml", "Dockerfile")]
    operator += [place.root / "uv.lock", place.root / "engine_image" / "protocol"]
    parts = (
        "outrider_engine",
        "outrider_weights",
        "protocol",
        "pyproject.toml",
        "README.md",
        "Dockerfile.cpu",
        "Dockerfile.plugin",
        "build.py",
        "releases.py",
    )
    engine = [place.root / "engine_image" / name for name in parts] + [place.root / "uv.lock"]
    twin = [place.root / "engine_image" / "testing" / "twin"]
    sglang = [place.root / "engine_image" / "testing" / "sglang_cpu"]

    def contents() -> dict[str, str]:
        found = {OPERATOR_IMAGE: fingerprint(*operator), ENGINE_IMAGE: fingerprint(*engine)}
        # Stages of one file, and the same wheels: what changes one mostly changes all.
        found |= dict.fromkeys((STOCK_IMAGE, PLUGIN_IMAGE), found[ENGINE_IMAGE])
        found[TWIN_IMAGE] = fingerprint(*engine, *twin)
        return {**found, SGLANG_IMAGE: fingerprint(*engine, *sglang)}

    def engine_image(work: Work, tag: str, target: Target, base: str) -> None:
        work.progress(target)
        tags = (STOCK_IMAGE, tag) if target is Target.CPU else (tag,)
        if all(_content(setup, each) == contents()[each] for each in tags):
            return
        context = _empty(place.build / target)
        shutil.copy(DOCKERFILES[target], context / "Dockerfile")
        pinned = {"VLLM_VERSION": DEFAULT_VERSIONS[target]} if target in DEFAULT_VERSIONS else {}
        for package in PACKAGES[target]:
            _wheel(place, work, package, context)
            pinned |= find_plugin(package, context).arguments()
        for command in library_commands(str(place.uv), target, context):
            work.run(*command, cwd=place.root)
        if target is Target.CPU:
            _build(setup, work, STOCK_IMAGE, context, contents()[STOCK_IMAGE], stage="stock", BASE=base)
        _build(setup, work, tag, context, contents()[tag], BASE=base, **pinned)

    def build(work: Work) -> None:
        work.progress("operator")
        if _content(setup, OPERATOR_IMAGE) != contents()[OPERATOR_IMAGE]:
            context = _empty(place.build / "operator")
            shutil.copy(place.root / "operator" / "Dockerfile", context)
            shutil.copytree(_dependencies(place, work), context / "wheels", copy_function=os.link)
            for package in ("outrider", "outrider-protocol"):
                _wheel(place, work, package, context)
            _build(setup, work, OPERATOR_IMAGE, context, contents()[OPERATOR_IMAGE], BASE=PYTHON_IMAGE)
        engine_image(work, ENGINE_IMAGE, Target.CPU, DEBIAN_IMAGE)
        engine_image(work, TWIN_IMAGE, Target.TWIN, ENGINE_IMAGE)
        engine_image(work, SGLANG_IMAGE, Target.SGLANG_CPU, ENGINE_IMAGE)
        engine_image(work, PLUGIN_IMAGE, Target.PLUGIN, DEBIAN_IMAGE)
        work.progress("operator, engines and plugin")

    return Stage(
        name="project images",
        run=build,
        key=lambda: fingerprint(*contents().values()),
        present=lambda: all(_content(setup, tag) == content for tag, content in contents().items()),
        needs=("base images", "uv"),
        remedy="a Python package index must be reachable from this machine; the log says what did not build",
    )


def _dependencies(place: Place, work: Work) -> Path:
    """The operator's locked dependencies as wheels, fetched once per lock and Python."""
    lock = place.build / "operator-requirements.txt"
    export = ["--package", "outrider", "--no-dev", "--no-emit-workspace", "--no-header", "--no-annotate"]
    work.run(place.uv, "export", "--quiet", "--frozen", *export, "--output-file", lock, cwd=place.root)
    wheels = place.build / f"wheels-{fingerprint(PYTHON_VERSION, lock)}"
    if not wheels.exists():
        partial = _empty(wheels.with_suffix(".partial"))
        fit = ["--only-binary", ":all:", "--python-version", PYTHON_VERSION]
        fit += [word for platform in WHEEL_PLATFORMS for word in ("--platform", platform)]
        pip = [str(place.tools / "bin" / "python"), "-m", "pip", "download", "--quiet", "--no-deps"]
        work.run(*pip, *fit, "--require-hashes", "--requirement", lock, "--dest", partial)
        partial.rename(wheels)
    return wheels


def _wheel(place: Place, work: Work, package: str, folder: Path) -> None:
    build: list[str | Path] = ["build", "--quiet", "--wheel", "--package", package, "--out-dir", folder]
    work.run(place.uv, *build, cwd=place.root)


def _build(
    setup: Setup,
    work: Work,
    tag: str,
    context: Path,
    content: str,
    *,
    stage: str | None = None,
    **arguments: str,
) -> None:
    """Builds an image that carries the hash of its content, unless it is there. stage: of its Dockerfile."""
    if _content(setup, tag) == content:
        return
    options = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    options += ["--target", stage] if stage is not None else []
    work.run("docker", "build", "--label", f"{CONTENT_LABEL}={content}", *options, "--tag", tag, context)


def _content(setup: Setup, tag: str) -> str:
    label = f'{{{{index .Config.Labels "{CONTENT_LABEL}"}}}}'
    return setup.shell.output("docker", "image", "inspect", "--format", label, tag)


def _exists(setup: Setup, tag: str) -> bool:
    return setup.shell.succeeds("docker", "image", "inspect", tag)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _link(program: Path, folder: Path) -> None:
    (folder / program.name).hardlink_to(program)
