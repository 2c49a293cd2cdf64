from pathlib import Path

from tests.environment.records import fingerprint
from tests.environment.runner import Work, upto
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


def test_a_failure_shows_the_command_its_output_and_what_to_do(tmp_path: Path) -> None:
    screen = Journal()

    assert not runner(tmp_path, screen).run([stage("floor", run=fails)])

    [(error, log, remedy)] = screen.failures
    assert error == "`sh -c echo the saw is blunt; exit 3` exited with 3"
    assert "the saw is blunt" in log
    assert remedy == "mend floor"


def test_until_keeps_a_stage_and_what_it_needs() -> None:
    stages = [
        stage("floor"),
        stage("garden"),
        stage("walls", needs=("floor",)),
        stage("roof", needs=("walls",)),
    ]

    assert [kept.name for kept in upto(stages, "walls")] == ["floor", "walls"]


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


def fails(work: Work) -> None:
    work.run("sh", "-c", "echo the saw is blunt; exit 3")
