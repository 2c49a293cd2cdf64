import io
from pathlib import Path

from tests.environment.screen import HEARTBEAT_SECONDS, Lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_finished_stage_is_one_line_with_its_number_progress_and_time() -> None:
    out = io.StringIO()
    Lines(["floor", "walls"], out, Clock()).finished("walls", "built 4 of 4", 12.3)

    assert out.getvalue().split() == ["[2/2]", "walls", "built", "4", "of", "4", "12", "s"]


def test_a_present_stage_says_that_it_was_skipped() -> None:
    out = io.StringIO()
    Lines(["floor"], out, Clock()).skipped("floor")

    assert out.getvalue() == "[1/1] floor  skipped (present)\n"


def test_a_failure_shows_the_end_of_the_log_its_path_and_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "floor.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    out = io.StringIO()

    Lines(["floor"], out, Clock()).failed("floor", "no nails", 3.0, log, "buy nails")

    shown = out.getvalue()
    assert "FAILED: no nails" in shown
    assert "line 99" in shown
    assert "line 50" not in shown
    assert f"log:   {log}" in shown
    assert "to do: buy nails" in shown


def test_a_log_file_gets_no_line_for_progress_within_the_first_minute() -> None:
    out = io.StringIO()
    Lines(["floor"], out, Clock()).running({"floor": ("built 1 of 4", 5.0)})

    assert out.getvalue() == ""


def test_a_log_file_hears_of_a_long_stage_once_a_minute() -> None:
    out, clock = io.StringIO(), Clock()
    lines = Lines(["floor"], out, clock)
    for clock.now in (HEARTBEAT_SECONDS, HEARTBEAT_SECONDS + 1):
        lines.running({"floor": ("built 1 of 4", clock.now)})

    assert out.getvalue() == "still running: [1/1] floor built 1 of 4 60 s\n"


def test_a_terminal_redraws_running_stages_in_place() -> None:
    out = Terminal()
    lines = Lines(["floor", "walls"], out, Clock())
    lines.running({"floor": ("built 1 of 4", 5.0), "walls": ("built 2 of 4", 5.0)})
    lines.finished("floor", "built 4 of 4", 9.0)

    assert "\x1b[2F\x1b[J" in out.getvalue()
