"""What only a GPU can show: ``make gpu-check``, or ``python -m tests.gpu``.

On one GPU, within about ``--minutes``. Engines start as the operator starts them, three of them together,
and one of them works at a time. The parts, the most valuable first:

- first-page: the README's launch: self-test, live K, counts, every K at every load;
- profile: the startup profile against live steps;
- rows: the rows of docs/coverage.md that only a GPU can show;
- k0: K=0 against a launch without a drafter, with a drafter that is skipped and one that follows;
- static: a live schedule against a fixed K;
- adaptive: vLLM's adaptive verification, on and off;
- runner: V2 against V1;
- graphs: graph memory and time of a start, by number of candidates.

Models come from OUTRIDER_GPU_TARGET and OUTRIDER_GPU_DRAFTER, from a Hugging Face cache, or are made without
weights. The results go to out/gpu: result.json and page.html, written after every load, logs of the engines,
and tables.json for `outrider simulate`. ``--resume`` continues an interrupted run. ``--engine cpu`` and
``--engine interpreted`` (V2 by Triton's interpreter) run the same parts without a GPU, with tiny models.

Exit codes: 0 where every limit is met, 1 where one is not or a part did not run, 2 without a GPU. A dry run
ends with 0 where every part ran.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx

from outrider_protocol.methods import Method
from tests.bench.results import head
from tests.contract.engine import install_plugin
from tests.contract.engine_process import PYTHON
from tests.gpu.budget import Need, allotments
from tests.gpu.cells import Load
from tests.gpu.comparisons import Clock
from tests.gpu.device import Device, NoDevice, find_device, find_vllm
from tests.gpu.engines import Fleet, install_check_plugins
from tests.gpu.launches import Models
from tests.gpu.models import find_or_make
from tests.gpu.page import console, page
from tests.gpu.parts import PARTS, Bench, Part, kept, waits
from tests.gpu.places import PLACES, Place
from tests.gpu.record import OtherMachine, PartRecord, Record, Status, continued
from tests.gpu.verdicts import EXIT_MET, EXIT_NO_GPU, EXIT_NOT_MET, FEWEST_PAIRS, exit_status

OUTPUT = Path("out/gpu")
WANTED = 3
"""So many times the fewest pairs are useful."""
LONGEST_WHY = 1500


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=sorted(PLACES), default="gpu", help="default: gpu")
    parser.add_argument("--minutes", type=float, default=20.0, help="for all parts (default: 20)")
    names = ",".join(part.name for part in PARTS)
    parser.add_argument("--parts", type=_parts, default=PARTS, help=f"of {names}; default: all")
    parser.add_argument("--methods", default="eagle3", help="one after the other (default: eagle3)")
    parser.add_argument("--candidates", default="0,1,2,3,5", help="with 0 (default: 0,1,2,3,5)")
    parser.add_argument("--k0", default="Auto", choices=("Auto", "Sync", "Skip"), help="default: Auto")
    parser.add_argument("--streams", help="loads of comparisons")
    parser.add_argument("--table-streams", help="loads of the table")
    parser.add_argument("--tokens", type=int, help="of each answer")
    parser.add_argument("--pairs", type=int, default=12, help="per comparison, at most (default: 12)")
    parser.add_argument("--memory-share", type=float, default=0.3, help="per engine (default: 0.3)")
    parser.add_argument("--flag", action="append", default=[], help="of vLLM, added to every launch")
    parser.add_argument("--plugin", type=Path, help="a folder with the installed plugin; default: built now")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder (default: {OUTPUT})")
    parser.add_argument("--resume", action="store_true", help="continue the result in the folder")
    return parser.parse_args(arguments)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of this program. deadline: of `time.monotonic`."""

    place: Place
    device: Device
    parts: Sequence[Part]
    record: Record
    deadline: float
    output: Path
    """Folder of the results and of the engines' logs."""

    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()

    def publish(self) -> None:
        """Write result, page and tables as they are known now."""
        self.record.write()
        titles = {part.name: part.title for part in PARTS}
        (self.output / "page.html").write_text(page(self.record, titles), encoding="utf-8")
        if self.record.tables:
            text = json.dumps({"tables": self.record.tables}, indent=1) + "\n"
            (self.output / "tables.json").write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = options(arguments)
    place = PLACES[given.engine]
    place = replace(place, flags=(*place.flags, *given.flag))
    try:
        device = Device(f"dry run, {place.evidence}", find_vllm(PYTHON)) if place.dry else find_device(PYTHON)
    except NoDevice as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return EXIT_NO_GPU
    deadline = time.monotonic() + 60 * given.minutes
    output: Path = given.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plugins = given.plugin or install_plugin(folder / "plugin"), install_check_plugins(folder / "check")
        models = [_models(method, given, device, place, output) for method in given.methods.split(",")]
        about = {
            **head("tests.gpu", arguments, datetime.now(UTC)),
            "engine": place.name,
            "evidence": place.evidence,
            "device": asdict(device),
            "minutes": given.minutes,
            "models": models[0].pair.described(),
        }
        file = output / "result.json"
        try:
            record = continued(file, about) if given.resume else Record(file, about)
        except (OtherMachine, OSError) as error:
            print(f"gpu-check: the check does not continue, because {error}", file=sys.stderr)
            return EXIT_NOT_MET
        session = Session(place, device, given.parts, record, deadline, output)
        for each in models:
            run_method(session, each, plugins, given)
    print(console(record.checks()))
    print(f"written to {output / 'page.html'} and {file}")
    return _exit(session)


def run_method(
    session: Session, models: Models, plugins: tuple[Path, Path], given: argparse.Namespace
) -> None:
    """Run all parts of one method that fit, the most valuable first."""
    fleet = Fleet(session.place, models, *plugins, session.output / "engines" / models.method)
    loads, table_loads = (
        [Load(streams, given.tokens or session.place.tokens, given.pairs) for streams in chosen]
        for chosen in (
            _numbers(given.streams) or session.place.streams,
            _numbers(given.table_streams) or session.place.table_streams,
        )
    )

    def publish() -> None:
        for arm, start in fleet.starts.items():
            session.record.starts[f"{models.method}, {arm}"] = start.described()
        session.publish()

    fleet.started = publish
    bench = Bench(fleet, session.device, loads, table_loads, session.record, publish)
    try:
        for number, part in enumerate(session.parts):
            name = f"{models.method}, {part.name}"
            if session.record.done(name):
                continue
            found = session.record.parts[name] = PartRecord(Status.CUT_OFF)
            session.publish()
            began = time.monotonic()
            try:
                _run(bench, session, session.parts[number:], found)
            except (AssertionError, OSError, ValueError, httpx.HTTPError) as error:
                found.status, found.why = outcome(part, str(error))
            found.seconds = round(time.monotonic() - began, 1)
            publish()
            print(f"{session.left():5.0f} s left  {name}: {found.status} {found.why[-300:]}", flush=True)
    finally:
        fleet.close()


def outcome(part: Part, error: str) -> tuple[Status, str]:
    """What an error makes of a part, and the end of its message or the line that explains it."""
    refusal = part.refused.search(error) if part.refused is not None else None
    if refusal is not None:
        return Status.NOT_HERE, error[refusal.start() :].partition("\n")[0]
    return Status.FAILED, error[-LONGEST_WHY:]


def _run(bench: Bench, session: Session, parts: Sequence[Part], found: PartRecord) -> None:
    """Run the first of these parts, unless an obstacle or the time forbids it."""
    part = parts[0]
    obstacle = part.obstacle(bench)
    if obstacle is not None:
        found.status, found.why = Status.NOT_HERE, obstacle
        return
    lack = part.lacks(bench)
    if lack is not None:
        found.status, found.why = Status.LACKING, lack
        return
    start_seconds = bench.fleet.start_seconds()
    side_by_side = bench.fleet.place.side_by_side
    possible = [each for each in parts if each.obstacle(bench) is None]
    starts = waits(possible, bench.fleet.running, side_by_side)
    needs = [_need(bench, each, starts[each.name]) for each in possible]
    seconds = allotments(needs, session.left(), start_seconds=start_seconds).get(part.name)
    if seconds is None:
        least = needs[0].starts * start_seconds + needs[0].least
        found.status = Status.NO_TIME
        found.why = (
            f"it needs {least:.0f} s, and {session.left():.0f} s are left: raise --minutes, or --resume"
        )
        return
    engines = bench.fleet.hold(part.arms, kept(possible, side_by_side)) if part.arms else {}
    part.run(bench, engines, Clock(seconds, session.left()), found)
    found.status = Status.DONE


def _need(bench: Bench, part: Part, starts: int) -> Need:
    """Seconds of one part, by the place's estimate of one load."""
    once = part.passes(bench) * bench.fleet.place.run_seconds
    repeats = 1 if part is PARTS[0] else FEWEST_PAIRS
    return Need(part.name, starts, once * (1 + repeats), once * (1 + repeats * WANTED))


def _parts(names: str) -> Sequence[Part]:
    by_name = {part.name: part for part in PARTS}
    unknown = [name for name in names.split(",") if name not in by_name]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [part for name, part in by_name.items() if name in names.split(",")]


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",")) if text else ()


def _models(method: str, given: argparse.Namespace, device: Device, place: Place, output: Path) -> Models:
    candidates = sorted(_numbers(given.candidates))
    # Beside the results, so that a run that continues has the same ones.
    pair = find_or_make(Method(method), output / "models" / method, place.size, os.environ)
    return Models(pair, Method(method), candidates, device.vllm, given.memory_share, given.k0)


def _exit(session: Session) -> int:
    statuses = [part.status for part in session.record.parts.values()]
    whole = all(status in (Status.DONE, Status.NOT_HERE) for status in statuses)
    if session.place.dry:
        return EXIT_MET if whole else EXIT_NOT_MET
    return exit_status(session.record.checks()) if whole else EXIT_NOT_MET


if __name__ == "__main__":
    # A time limit ends this process by SIGTERM. Its engines lead groups of their own and would survive.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_NOT_MET))
    sys.exit(main(sys.argv[1:]))
