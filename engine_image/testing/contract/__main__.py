"""``python -m engine_image.testing.contract``: check every supported release, and keep the results."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engine_image.testing.contract.result import (
    RESULT_FILE,
    SGLANG_RESULT_FILE,
    Outcome,
    Result,
    check,
    check_sglang,
)
from engine_image.testing.contract.source import Source
from engine_image.testing.contract.wheels import (
    SUPPORTED,
    SUPPORTED_SGLANG,
    Distribution,
    archive,
    cache_folder,
)


def main(arguments: Sequence[str]) -> int:
    """0 when every release keeps the contract, else 1. The results are written in both cases."""
    parser = argparse.ArgumentParser(prog="python -m engine_image.testing.contract", description=__doc__)
    parser.add_argument("--write", metavar="FOLDER", type=Path, help="where the results are kept")
    folder: Path | None = parser.parse_args(arguments).write
    good = [
        _check(SUPPORTED, check, None if folder is None else folder / RESULT_FILE.name),
        _check(SUPPORTED_SGLANG, check_sglang, None if folder is None else folder / SGLANG_RESULT_FILE.name),
    ]
    return 0 if all(good) else 1


def _check(
    distributions: Sequence[Distribution], check_one: Callable[[Source, str], Outcome], target: Path | None
) -> bool:
    """Whether every release of one engine keeps its contract."""
    versions: dict[str, Outcome] = {}
    for distribution in distributions:
        source = Source(archive(distribution, cache_folder()), distribution.package)
        outcome = check_one(source, distribution.version)
        versions[str(distribution)] = outcome
        sys.stdout.write(f"{distribution}: {'; '.join(outcome.broken) or 'ok'}\n")
    if target is not None:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        target.write_text(Result(today, versions).to_json(), encoding="utf-8")
    return not any(outcome.broken for outcome in versions.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
