"""``python -m tests.mutants``: change the safety files a little, many times; do their tests fail?

Works on copies of the tree. It prints each mutant that no test notices, with its difference.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from difflib import unified_diff
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from cosmic_ray.mutating import use_mutation

from tests.mutants.operators import operators
from tests.mutants.runner import passes
from tests.mutants.sample import Mutant, sample
from tests.mutants.targets import TARGETS

OUT = Path("out/mutants/result.json")
LEFT_OUT = (".*", "out", "dist", "__pycache__")
GOAL = 0.9
"""Share of the mutants that tests must notice."""

Job = TypeVar("Job")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    file: str
    mutant: Mutant
    caught: bool
    difference: str


def main() -> None:
    """Sample, run, write the result, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="1", help="another one tries other mutants")
    parser.add_argument("--count", type=int, default=10, help="mutants per file, at most")
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree that are tested side by side")
    parser.add_argument("--only", default="", help="files whose path contains this")
    options = parser.parse_args()
    files = [file for file in TARGETS if options.only in file]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outrider-mutants-") as folder:
        copies = [_copy(Path(folder) / str(index)) for index in range(options.jobs)]
        tests = sorted({TARGETS[file] for file in files})
        limits = dict(zip(tests, _in_copies(copies, tests, _limit), strict=True))
        jobs = [
            (file, mutant, limits[TARGETS[file]])
            for file in files
            for mutant in sample(_read(file), options.count, f"{options.seed} {file}")
        ]
        print(f"{len(jobs)} mutants of {len(files)} files", flush=True)
        outcomes = _in_copies(copies, jobs, lambda copy, job: _try(copy, *job))
    found = result(outcomes, vars(options), seconds=time.monotonic() - began)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=2), encoding="utf-8")
    print(table(outcomes))
    print(OUT)
    sys.exit(0 if share(outcomes) >= GOAL else f"less than {GOAL:.0%} were caught")


def share(outcomes: Sequence[Outcome]) -> float:
    """Of the mutants that tests noticed."""
    return sum(o.caught for o in outcomes) / len(outcomes)


def by_file(outcomes: Sequence[Outcome]) -> Mapping[str, Sequence[Outcome]]:
    """In the order of the targets."""
    return {file: found for file in TARGETS if (found := [o for o in outcomes if o.file == file])}


def result(outcomes: Sequence[Outcome], options: Mapping[str, object], *, seconds: float) -> object:
    """As it is stored."""
    files = {
        file: {
            "mutants": len(found),
            "caught": sum(o.caught for o in found),
            "survived": [{**asdict(o.mutant), "difference": o.difference} for o in found if not o.caught],
        }
        for file, found in by_file(outcomes).items()
    }
    command = " ".join(("python -m tests.mutants", *sys.argv[1:]))
    return {
        "command": command,
        **options,
        "seconds": round(seconds),
        "mutants": len(outcomes),
        "caught": sum(o.caught for o in outcomes),
        "files": files,
    }


def table(outcomes: Sequence[Outcome]) -> str:
    """For people."""
    rows = [f"{len(found):4d} {share(found):6.0%}  {file}" for file, found in by_file(outcomes).items()]
    return "\n".join(("   n caught", *rows, f"{len(outcomes):4d} {share(outcomes):6.0%}  all"))


def _copy(to: Path) -> Path:
    shutil.copytree(".", to, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return to


def _in_copies(
    copies: Sequence[Path], jobs: Sequence[Job], work: Callable[[Path, Job], Answer]
) -> list[Answer]:
    """As many at a time as there are copies, each job alone in one."""
    free = SimpleQueue[Path]()
    for copy in copies:
        free.put(copy)

    def alone(job: Job) -> Answer:
        copy = free.get()
        try:
            return work(copy, job)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(alone, jobs))


def _limit(copy: Path, tests: str) -> float:
    """Seconds after which a test run has failed: thrice what it takes when nothing is changed."""
    began = time.monotonic()
    if not passes(copy, tests, log=_log(copy)):
        raise SystemExit(f"{tests} fail without a mutant:\n{_log(copy).read_text(encoding='utf-8')[-2000:]}")
    return 3 * (time.monotonic() - began) + 20


def _log(copy: Path) -> Path:
    return copy.with_suffix(".log")


def _try(copy: Path, file: str, mutant: Mutant, limit: float) -> Outcome:
    began = time.monotonic()
    with use_mutation(copy / file, operators()[mutant.operator], mutant.occurrence) as (before, after):
        if after is None:
            raise SystemExit(f"{mutant} is none of {file}")
        caught = not passes(copy, TARGETS[file], log=_log(copy), limit=limit)
    lines = unified_diff(before.splitlines(), after.splitlines(), file, file, n=1, lineterm="")
    difference = "\n".join(lines)
    seconds = time.monotonic() - began
    print(
        f"{'caught' if caught else 'SURVIVED'} {file}:{mutant.line} {mutant.operator} {seconds:.0f} s",
        flush=True,
    )
    if not caught:
        print(difference, flush=True)
    return Outcome(file, mutant, caught, difference)


def _read(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
