import json
import threading
from pathlib import Path

import pytest

from tests.environment.records import fingerprint
from tests.environment.runner import StageError, Work, upto
from tests.unit.environment.factories import Journal, runner, stage


def test_a_stage_runs_after_everything_it_needs(tmp_path: Path) -> None:
    screen = Journal()
    stages = [stage("roof", needs=("walls",)), stage("walls", needs=("floor",)), stage("floor")]

    assert runner(tmp_path, screen).run(stages)

    assert screen.events == [("finished", "floor"), ("finished", "walls"), ("finished", "roof")]


def test_a_second_run_skips_what_is_present(tmp_path: Path) -> None:
    runner(tmp_path, Journal()).run([stage("floor")])
    screen = Journal()

    assert runner(tmp_path, screen).run([stage("floor")])

    assert screen.events == [("skipped", "floor")]


def test_a_changed_key_runs_the_stage_again(tmp_path: Path) -> None:
    runner(tmp_path, Journal()).run([stage("floor", key="oak")])
    screen = Journal()

    runner(tmp_path, screen).run([stage("floor", key="pine")])

    assert screen.events == [("finished", "floor")]


def test_a_lost_outcome_runs_the_stage_again(tmp_path: Path) -> None:
    runner(tmp_path, Journal()).run([stage("floor")])
    screen = Journal()

    runner(tmp_path, screen).run([stage("floor", present=False)])

    assert screen.events == [("finished", "floor")]


def test_a_stage_that_failed_is_not_skipped_next_time(tmp_path: Path) -> None:
    runner(tmp_path, Journal()).run([stage("floor")])
    runner(tmp_path, Journal()).run([stage("floor", key="v2", run=fails)])
    screen = Journal()

    runner(tmp_path, screen).run([stage("floor")])

    assert screen.events == [("finished", "floor")]


def test_a_failure_tells_the_command_its_output_and_what_to_do(tmp_path: Path) -> None:
    screen = Journal()

    assert not runner(tmp_path, screen).run([stage("floor", run=fails)])

    [(error, log, remedy)] = screen.failures
    assert error == "`sh -c echo the saw is blunt; exit 3` exited with 3"
    assert "the saw is blunt" in log
    assert remedy == "mend floor"


def test_a_program_that_is_missing_fails_the_stage(tmp_path: Path) -> None:
    screen = Journal()

    assert not runner(tmp_path, screen).run([stage("floor", run=lambda work: work.run("no-such-saw"))])

    assert "no-such-saw" in screen.failures[0][0]


def test_nothing_starts_after_a_failure(tmp_path: Path) -> None:
    screen = Journal()

    runner(tmp_path, screen).run([stage("floor", run=fails), stage("walls", needs=("floor",))])

    assert screen.events == [("failed", "floor")]


@pytest.mark.timeout(120)
def test_a_failure_ends_the_commands_of_other_stages(tmp_path: Path) -> None:
    screen = Journal()
    started = threading.Event()

    def waits(work: Work) -> None:
        started.set()
        work.run("sleep", "600")

    def fails_later(work: Work) -> None:
        started.wait()
        fails(work)

    assert not runner(tmp_path, screen).run([stage("paint", run=waits), stage("floor", run=fails_later)])

    assert screen.events == [("failed", "floor")]


@pytest.mark.timeout(120)
def test_independent_stages_overlap(tmp_path: Path) -> None:
    together = threading.Barrier(2)
    stages = [stage(name, run=lambda _: pass_barrier(together)) for name in ("floor", "garden")]

    assert runner(tmp_path, Journal()).run(stages)


def test_stages_of_one_lane_do_not_overlap(tmp_path: Path) -> None:
    busy = threading.Lock()
    overlaps: list[str] = []

    def saws(work: Work) -> None:
        if not busy.acquire(blocking=False):
            overlaps.append("two saws")
            return
        work.run("true")
        busy.release()

    stages = [stage(name, run=saws, lane="saw") for name in ("floor", "walls", "roof")]

    assert runner(tmp_path, Journal()).run(stages)
    assert overlaps == []


def test_a_stage_that_needs_an_unknown_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="roof"):
        runner(tmp_path, Journal()).run([stage("floor"), stage("roof", needs=("walls",))])


def test_the_time_table_keeps_the_last_real_run_of_a_skipped_stage(tmp_path: Path) -> None:
    (tmp_path / "times.json").write_text(
        json.dumps({"stages": {"floor": {"outcome": "done", "seconds": 712.0}}})
    )
    (tmp_path / "stages.json").write_text(json.dumps({"floor": "v1"}))
    again = runner(tmp_path, Journal())

    again.run([stage("floor")])
    again.records.close(1.5, "local")

    written = json.loads((tmp_path / "times.json").read_text())
    assert written == {
        "cluster": "local",
        "totalSeconds": 1.5,
        "stages": {"floor": {"outcome": "skipped", "seconds": 712.0}},
    }


def test_until_keeps_a_stage_and_what_it_needs() -> None:
    stages = [
        stage("floor"),
        stage("garden"),
        stage("walls", needs=("floor",)),
        stage("roof", needs=("walls",)),
    ]

    assert [kept.name for kept in upto(stages, "walls")] == ["floor", "walls"]


def test_until_an_unknown_stage_lists_the_stages() -> None:
    with pytest.raises(StageError, match="'cellar'; the stages are: floor, roof"):
        upto([stage("floor"), stage("roof")], "cellar")


def test_the_fingerprint_follows_content_names_and_modes(tmp_path: Path) -> None:
    file = tmp_path / "plan.txt"
    file.write_text("one")
    prints = [fingerprint("v1", tmp_path), fingerprint("v2", tmp_path)]
    file.write_text("two")
    prints.append(fingerprint("v1", tmp_path))
    file.chmod(0o755)
    prints.append(fingerprint("v1", tmp_path))
    file.rename(tmp_path / "other.txt")
    prints.append(fingerprint("v1", tmp_path))

    assert len(set(prints)) == len(prints)


def test_the_fingerprint_ignores_compiled_python(tmp_path: Path) -> None:
    (tmp_path / "plan.py").write_text("x = 1")
    before = fingerprint(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "plan.pyc").write_text("compiled")

    assert fingerprint(tmp_path) == before


def fails(work: Work) -> None:
    work.run("sh", "-c", "echo the saw is blunt; exit 3")


def pass_barrier(barrier: threading.Barrier) -> None:
    barrier.wait(timeout=60)
