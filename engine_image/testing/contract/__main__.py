"""``python -m engine_image.testing.contract``: check every supported vLLM, and keep the result."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_image.testing.contract.result import Outcome, Result, check
from engine_image.testing.contract.source import Source
from engine_image.testing.contract.wheels import SUPPORTED, archive, cache_folder


def main(arguments: Sequence[str]) -> int:
    """0 when every version keeps the contract, else 1. The result is written in both cases."""
    parser = argparse.ArgumentParser(prog="python -m engine_image.testing.contract", description=__doc__)
    parser.add_argument("--write", metavar="FILE", type=Path, help="where the result is kept")
    target: Path | None = parser.parse_args(arguments).write
    versions: dict[str, Outcome] = {}
    for distribution in SUPPORTED:
        outcome = check(Source(archive(distribution, cache_folder())), distribution.version)
        versions[str(distribution)] = outcome
        sys.stdout.write(f"{distribution}: {'; '.join(outcome.broken) or 'ok'}\n")
    if target is not None:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        target.write_text(Result(today, versions).to_json(), encoding="utf-8")
    return 1 if any(outcome.broken for outcome in versions.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
