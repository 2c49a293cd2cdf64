"""``python -m tests.bench.tuning``: run, judge, draw. An interrupted run continues."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.bench.tuning import sweep
from tests.bench.tuning.families import DOUBTFUL_MAPS, RULES, Job, Row, moving, stationary, steady
from tests.bench.tuning.picture import draw, draw_sweep
from tests.bench.tuning.report import summary, text
from tests.bench.tuning.speed import measure

OUT = Path("out/bench/tuning")
SOURCES = (
    "operator/outrider/tuning",
    "operator/outrider/performance",
    "operator/lab/outrider_lab",
    "operator/outrider/api",
    "tests/bench/tuning",
)
ALL = (*RULES, "static")


def main() -> None:
    """Parse, run, write `results.json` and the pictures, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few seeds, no sweep: a few minutes")
    parser.add_argument("--seeds", type=int, default=None, help="default 20, with --quick 3")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--no-sweep", action="store_true", help="leave out the change of constants")
    options = parser.parse_args()
    seeds = options.seeds or (3 if options.quick else 20)
    began = time.monotonic()
    rows = execute(_main_jobs(seeds), options.jobs)
    swept: list[Row] = []
    if not (options.quick or options.no_sweep):
        swept = execute(list(sweep.jobs(2)), options.jobs)
    OUT.mkdir(parents=True, exist_ok=True)
    report = [row for row in rows if row["half"] == "report"]
    found = summary(rows, swept, measure(), seeds=seeds, seconds=time.monotonic() - began)
    (OUT / "results.json").write_text(
        json.dumps({**found, "rows": rows, "sweep_rows": swept}), encoding="utf-8"
    )
    draw(report, OUT / "tuning.png")
    if swept:
        draw_sweep(swept, OUT / "tuning-sweep.png")
    print(text(found))
    print(f"{OUT / 'results.json'}, {OUT / 'tuning.png'}")


def _main_jobs(seeds: int) -> list[Job]:
    """The report half with every seed; the tune half, which proves nothing, with fewer."""
    few = max(2, seeds // 5)
    return [
        *stationary("report", seeds, ALL),
        *moving("report", seeds, ALL),
        *steady("report", seeds, ("outrider",)),
        *stationary("report", few, DOUBTFUL_MAPS),
        *moving("report", few, DOUBTFUL_MAPS),
        *stationary("tune", few, ("outrider",)),
        *moving("tune", few, ("outrider",)),
    ]


def execute(jobs: Sequence[Job], processes: int) -> list[Row]:
    """All rows; those of an earlier run of the same code are taken from its file."""
    path = OUT / f"rows-{fingerprint()}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {entry["key"]: entry["rows"] for entry in _entries(path)}
    known = {(job.key(), job.half, job.policies): job for job in jobs}
    missing = [job for job in known.values() if _name(job) not in done]
    with path.open("a", encoding="utf-8") as file, ProcessPoolExecutor(processes) as pool:
        futures = {pool.submit(job.run): job for job in missing}
        for count, future in enumerate(as_completed(futures), start=1):
            name = _name(futures[future])
            done[name] = future.result()
            file.write(json.dumps({"key": name, "rows": done[name]}) + "\n")
            file.flush()
            if count % 10 == 0 or count == len(missing):
                print(f"{count} of {len(missing)} jobs", flush=True)
    return [row for job in jobs for row in done[_name(job)]]  # type: ignore[attr-defined]


def _name(job: Job) -> str:
    return f"{job.key()}/{job.half}/{','.join(job.policies)}"


def _entries(path: Path) -> Iterable[dict[str, object]]:
    if not path.exists():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:  # the line that was being written when the run was interrupted
            continue
    return entries


def fingerprint() -> str:
    """Of the code that decides the results."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    main()
