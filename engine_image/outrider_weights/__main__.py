"""``python -m outrider_weights``: what ``OUTRIDER_WEIGHTS`` asks for, and how it ended."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from outrider_weights import hub
from outrider_weights.description import describe
from outrider_weights.failure import DownloadError, Reason, explained
from outrider_weights.progress import Progress, served
from outrider_weights.snapshot import Snapshot, check_space
from outrider_weights.wanted import Artifact, BucketArtifact, Wanted, read

PORT_VARIABLE = "OUTRIDER_WEIGHTS_PORT"
TERMINATION_LOG_VARIABLE = "OUTRIDER_TERMINATION_LOG"

log = logging.getLogger("outrider_weights")


def main(environment: Mapping[str, str]) -> int:
    """Exit code: 0 when all weights are there, 1 to be started again."""
    logging.basicConfig(format="%(asctime)s %(message)s")
    log.setLevel(logging.INFO)
    end = Path(environment.get(TERMINATION_LOG_VARIABLE, "/dev/termination-log"))
    try:
        results = bring(read(environment), port=int(environment.get(PORT_VARIABLE, "0")))
    except DownloadError as error:
        log.error("%s: %s", error.reason, error.message)
        end.write_text(json.dumps({"reason": error.reason, "message": error.message}), encoding="utf-8")
        return 1
    end.write_text(json.dumps({"weights": results}), encoding="utf-8")
    return 0


def bring(wanted: Wanted, *, port: int) -> dict[str, dict[str, object]]:
    """Resolve, download and check all artifacts, and describe each by its role.

    Raises:
        DownloadError: not all of it is there.
    """
    volume = wanted.folder
    snapshots = [_resolved(artifact) for artifact in wanted.artifacts]
    distinct = list({snapshot.path: snapshot for snapshot in snapshots}.values())
    for snapshot in distinct:
        snapshot.sweep(volume, shared=wanted.shared)
    check_space(distinct, volume)
    total = sum(snapshot.size for snapshot in distinct)

    def look() -> Progress:
        return Progress(sum(snapshot.on_disk(volume) for snapshot in distinct), total)

    with served(look, port):
        for snapshot in distinct:
            log.info("%s at %s: %.1f GB", snapshot.name, snapshot.revision, snapshot.size / 1e9)
            try:
                snapshot.bring(volume)
            except Exception as error:  # whatever it is, its cause has to reach the status
                raise explained(error, snapshot.name) from error
    return {
        each.role: {
            **{"path": each.path, "revision": each.revision, "bytes": each.size},
            **describe(volume / each.path),
        }
        for each in snapshots
    }


def _resolved(artifact: Artifact | BucketArtifact) -> Snapshot:
    if isinstance(artifact, Artifact):
        try:
            return hub.resolve(artifact)
        except Exception as error:  # likewise
            raise explained(error, f"hf://{artifact.repository}") from error
    try:
        from outrider_weights import bucket
    except ImportError as error:
        message = "the engine's image has no obstore, which s3:// takes: use the image of this release"
        raise DownloadError(Reason.FAILED, message) from error
    return bucket.resolve(artifact)


if __name__ == "__main__":
    sys.exit(main(os.environ))
