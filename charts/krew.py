"""The kubectl plugin for krew: ``python -m charts.krew --repository URL --folder dist`` writes both files.

The plugin is the command `outrider` in its own environment, which uv makes at the first call. krew wants an
archive of a single program and a manifest with its hash.
Manifests: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from charts.version import ROOT, version

PLUGIN = "speculative"
PROGRAM = f"kubectl-{PLUGIN}"
ARCHIVE = f"{PROGRAM}.tar.gz"
MANIFEST = f"{PLUGIN}.yaml"
SYSTEMS = ("linux", "darwin")
_SCRIPT = """#!/bin/sh
# The command outrider {version} in its own environment, made by uv (https://docs.astral.sh/uv/).
command -v uv > /dev/null || {{ echo "kubectl speculative needs uv: install it, then repeat" >&2; exit 2; }}
exec uv tool run --quiet --from "outrider=={version}" {program} "$@"
"""


def script(release: str) -> str:
    """The program of the archive: a shell script that runs this release."""
    return _SCRIPT.format(version=release, program=PROGRAM)


def archive(files: dict[str, bytes]) -> bytes:
    """A compressed tar file that is equal for equal files. files: content by name."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755 if name == PROGRAM else 0o644
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(held.getvalue(), mtime=0)


def manifest(release: str, repository: str, packed: bytes) -> str:
    """The manifest, in JSON, which is YAML. repository: its address, without a slash at the end."""
    platform = {
        "uri": f"{repository}/releases/download/v{release}/{ARCHIVE}",
        "sha256": hashlib.sha256(packed).hexdigest(),
        "bin": PROGRAM,
        "files": [{"from": PROGRAM, "to": "."}, {"from": "LICENSE", "to": "."}],
    }
    found = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": f"v{release}",
            "homepage": repository,
            "shortDescription": "Status of models with speculative decoding",
            "description": (
                "Shows how models served by Outrider fare, why each has its draft length, what needs a "
                "person, and what speculative decoding gains. It is the command outrider as a plugin."
            ),
            "caveats": "The plugin needs uv, which makes an environment for it at the first call.",
            "platforms": [{"selector": {"matchLabels": {"os": system}}, **platform} for system in SYSTEMS],
        },
    }
    return json.dumps(found, indent=2) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the archive and the manifest; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m charts.krew", description=__doc__)
    parser.add_argument("--repository", required=True, help="address of the repository, such as https://…")
    parser.add_argument("--folder", required=True, type=Path, help="folder to write both files to")
    options = parser.parse_args(arguments)
    release = version()
    packed = archive({PROGRAM: script(release).encode(), "LICENSE": (ROOT / "LICENSE").read_bytes()})
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / ARCHIVE).write_bytes(packed)
    text = manifest(release, str(options.repository).rstrip("/"), packed)
    (options.folder / MANIFEST).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
