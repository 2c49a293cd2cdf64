"""``outrider bench`` with an operator and a GuideLLM that are stand-ins: what it changes, and takes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.common import output
from outrider.cli.main import app
from tests.unit.bench.kit import REPORT
from tests.unit.cli.kit import OVERRIDE, UNTIL, Tuned
from tests.unit.cli.kubernetes import Body, Kubernetes, serving

GUIDELLM = """
import json, pathlib, sys
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
output = words["--output"].split("path=")[1]
report = json.loads(pathlib.Path({report!r}).read_text())
pathlib.Path(output).write_text(json.dumps(report))
with open({calls!r}, "a") as calls:
    print(words["--profile"], file=calls)
"""
HANGS = """
import os, pathlib, time
pathlib.Path({calls!r}).write_text(str(os.getpid()))
time.sleep(600)
"""


@pytest.fixture
def guidellm(tmp_path: Path) -> str:
    """A program that writes a real report of GuideLLM's at once."""
    (tmp_path / "report.json").write_text(REPORT)
    script = tmp_path / "guidellm.py"
    script.write_text(GUIDELLM.format(report=str(tmp_path / "report.json"), calls=str(tmp_path / "calls")))
    return f"{sys.executable} {script}"


def benched(cluster: Kubernetes, tmp_path: Path, *words: str) -> Result:
    with serving(cluster, tmp_path) as environment:
        return CliRunner().invoke(
            app,
            ["bench", "m", "--yes", "--url", "http://127.0.0.1:1/v1", "--rounds", "2", *words],
            env=environment,
        )


def test_every_arm_is_measured_in_every_round_after_one_slice_that_does_not_count(
    tmp_path: Path, guidellm: str
) -> None:
    result = benched(Tuned(), tmp_path, "--guidellm", guidellm, "--k", "3", "--json")
    told = json.loads(result.stdout)
    assert [(arm["arm"], len(arm["slices"])) for arm in told["arms"]] == [
        ("as it is", 2),
        ("K=0", 2),
        ("K=3", 2),
    ]
    assert len((tmp_path / "calls").read_text().splitlines()) == 7


def test_the_largest_candidate_is_held_where_none_is_named(tmp_path: Path, guidellm: str) -> None:
    cluster = Tuned()
    benched(cluster, tmp_path, "--guidellm", guidellm)
    assert {table for table in cluster.tables if table} == {"*:0", "*:5"}


def test_each_override_has_an_end_and_none_is_left(tmp_path: Path, guidellm: str) -> None:
    cluster = Tuned()
    result = benched(cluster, tmp_path, "--guidellm", guidellm)
    assert result.exit_code == 0
    set_with = [body["metadata"]["annotations"] for _, _, body in cluster.written]
    assert all(each[UNTIL] for each in set_with if each[OVERRIDE])
    assert cluster.annotations == {}


def test_a_model_that_somebody_overrules_already_is_left_alone(tmp_path: Path) -> None:
    cluster = Tuned()
    cluster.annotations.update({OVERRIDE: "*:1", UNTIL: "2026-01-01T12:00:00Z"})
    result = benched(cluster, tmp_path, "--guidellm", "true")
    assert result.exit_code == 2
    assert "has the annotation outrider.dev/schedule-override, which this would overwrite" in result.output
    assert cluster.written == []


def test_an_override_that_somebody_set_meanwhile_voids_the_bench_and_stays(
    tmp_path: Path, guidellm: str
) -> None:
    cluster = Tuned()
    theirs = {OVERRIDE: "*:1", UNTIL: "2099-01-01T12:00:00Z"}
    cluster.after_each_override = lambda: cluster.annotations.update(theirs)
    result = benched(cluster, tmp_path, "--guidellm", guidellm)
    assert result.exit_code == 2
    assert "the schedule changed during a measurement" in result.output
    assert cluster.annotations == theirs


@pytest.mark.parametrize(
    ("spec", "words", "told"),
    [
        ({}, ("--guidellm", "guidellm-that-is-not-here"), "GuideLLM is not installed. Run `uv tool"),
        ({}, ("--k", "4", "--guidellm", "true"), "--k 4 is not a candidate"),
        (
            {"tuning": {"actuation": "Rollout"}},
            ("--guidellm", "true"),
            "this needs tuning.actuation: Live",
        ),
        ({}, ("--guidellm", "true"), "GuideLLM wrote no result; 0.8 is known to work."),
        ({}, ("--save", "/no/such/folder/o.json"), "--save: there is no folder /no/such/folder"),
        ({}, ("--prompts", "/no/such/file"), "--prompts: there is no file /no/such/file"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    tmp_path: Path, spec: Body, words: tuple[str, ...], told: str
) -> None:
    cluster = Tuned(candidates=[0, 1, 3, 5], **spec)
    result = benched(cluster, tmp_path, *words)
    assert result.exit_code == 2
    assert f"outrider bench: {told}" in result.output
    assert cluster.written == []


def test_what_the_operator_says_to_a_refused_override_is_told_and_it_is_taken_back(
    tmp_path: Path, guidellm: str
) -> None:
    cluster = Tuned()
    cluster.refuses = True
    result = benched(cluster, tmp_path, "--guidellm", guidellm)
    assert result.exit_code == 2
    assert "outrider bench: Write *:3." in result.output
    assert cluster.annotations == {}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_bench_that_is_killed_leaves_no_override_and_no_guidellm(
    tmp_path: Path, guidellm: str, how: signal.Signals
) -> None:
    cluster, script, pid = Tuned(), tmp_path / "hangs.py", tmp_path / "pid"
    warm = Path(guidellm.split()[1]).read_text()
    calls = str(tmp_path / "calls")
    script.write_text(
        f"import pathlib\nif pathlib.Path({calls!r}).exists():\n"
        + "".join(f"    {line}\n" for line in HANGS.format(calls=str(pid)).splitlines())
        + warm
    )
    words = [
        str(Path(sys.executable).with_name("outrider")),
        "bench",
        "m",
        "--yes",
        "--url",
        "http://127.0.0.1:1",
    ]
    with serving(cluster, tmp_path) as environment:
        command = [*words, "--guidellm", f"{sys.executable} {script}", "--k", "5"]
        # Where tests run in the background of a shell, it ignores some signals for all that is started there.
        with subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(how, signal.SIG_DFL),
        ) as running:
            wait_until(lambda: pid.exists() and pid.read_text() != "" and any(cluster.tables))
            running.send_signal(how)
            _, complaint = running.communicate(timeout=120)
    assert running.returncode == 2
    assert complaint.splitlines()[-1] == "outrider bench: stopped"
    assert cluster.annotations == {}
    assert not Path(f"/proc/{pid.read_text()}").exists()


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_report_without_the_library_for_charts_is_refused_before_any_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "find_spec", lambda _: None)
    result = CliRunner().invoke(app, ["bench", "qwen3", "--yes", "--report", str(tmp_path / "report.html")])
    assert result.exit_code == 2
    assert "Run `pip install 'outrider[report]'`" in result.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no prompt"),
        ("\n\n", "has no prompt"),
        ('{"text": "x"}', "line 1: write"),
        ('plain\n{"prompt"', "line 2: write"),
    ],
)
def test_a_file_without_prompts_names_the_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "prompts"
    file.write_text(text)
    result = benched(Tuned(), tmp_path, "--prompts", str(file), "--guidellm", "true")
    assert result.exit_code == 2
    assert told in result.output


def swept(cluster: Tuned, tmp_path: Path, *words: str) -> Result:
    with serving(cluster, tmp_path) as environment:
        command = ["sweep", "m", "--yes", "--url", "http://127.0.0.1:1", "--rounds", "2", *words]
        return CliRunner().invoke(app, command, env=environment)


def test_a_sweep_writes_the_table_that_simulate_reads(tmp_path: Path, guidellm: str) -> None:
    cluster, file = Tuned(candidates=[0, 3, 5]), tmp_path / "table.json"
    result = swept(cluster, tmp_path, "--streams", "1,8", "--guidellm", guidellm, "--save", str(file))
    assert result.exit_code == 0
    assert "A static schedule: 1+:0 (batch size: K)" in result.stdout
    calls = (tmp_path / "calls").read_text().split()
    assert len(calls) == 1 + 2 * 2 * 3
    assert {call.split("streams=")[1] for call in calls} == {"1", "8"}
    assert cluster.annotations == {}
    simulated = CliRunner().invoke(app, ["simulate", "--tables", str(file), "--dwell", "5"])
    assert simulated.exit_code == 0
    assert "ignored" not in simulated.output


@pytest.mark.parametrize("streams", ["0", "-1", "1,,2", "one", "99999999999999999999", ""])
def test_streams_that_are_no_numbers_are_refused(tmp_path: Path, streams: str) -> None:
    words = (f"--streams={streams}", "--save", str(tmp_path / "o"), "--guidellm", "true")
    result = swept(Tuned(), tmp_path, *words)
    assert result.exit_code == 2
    assert "write numbers from 1 to 4096 such as 1,4,16" in result.output


def test_the_page_is_written_beside_what_is_printed(tmp_path: Path, guidellm: str) -> None:
    file = tmp_path / "report.html"
    result = benched(
        Tuned(), tmp_path, "--guidellm", guidellm, "--report", str(file), "--price-per-hour", "2.4"
    )
    assert result.exit_code == 0
    assert "default/m" in file.read_text()
    assert "$ per million tokens, K=0: " in result.stdout


def test_decisions_of_the_tuner_meanwhile_are_told_and_older_ones_are_not(
    tmp_path: Path, guidellm: str
) -> None:
    cluster = Tuned()
    times = ("2126-01-01T12:00:00Z", "2026-01-01T12:00:00Z")
    cluster.decisions = [{"time": time, "from": "*:3", "to": "*:1", "reason": "BetterK"} for time in times]
    told = json.loads(benched(cluster, tmp_path, "--guidellm", guidellm, "--json").stdout)
    assert [each["time"] for each in told["decisions"]] == ["2126-01-01T12:00:00Z"]


def test_a_folder_that_is_missing_is_told_before_any_load(tmp_path: Path) -> None:
    result = benched(Tuned(), tmp_path, "--guidellm", "true", "--report", str(tmp_path / "none" / "r.html"))
    assert result.exit_code == 2
    assert result.stderr.startswith("outrider bench: --report: there is no folder ")


def without_decisions(cluster: Tuned) -> Tuned:
    """What the tuner decided cannot be read any more, once something was held."""
    cluster.refused = lambda _, path: "configmaps" in path and any(cluster.tables)
    return cluster


def failing_after(calls: int, guidellm: str, tmp_path: Path) -> str:
    """A GuideLLM that has a bad day from then on. calls: the slice that warms up included."""
    script, done = Path(guidellm.split()[1]), str(tmp_path / "calls")
    guard = f"import pathlib, sys\nfound = pathlib.Path({done!r})\n"
    guard += f"if found.exists() and len(found.read_text().splitlines()) >= {calls}: sys.exit('bad day')\n"
    script.write_text(guard + script.read_text())
    return guidellm


def test_what_was_measured_is_told_where_decisions_cannot_be_read(tmp_path: Path, guidellm: str) -> None:
    page, file = tmp_path / "r.html", tmp_path / "o.json"
    words = ("--guidellm", guidellm, "--report", str(page), "--save", str(file), "--json")
    result = benched(without_decisions(Tuned()), tmp_path, *words)
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert [len(arm["slices"]) for arm in told["arms"]] == [2, 2, 2]
    assert (told["decisions"], told["ended"]) == (None, None)
    assert "forbidden" in told["decisionsUnread"]
    assert json.loads(file.read_text()) == told
    assert "Not known:" in page.read_text()


def test_whole_rounds_are_told_where_a_bench_cannot_go_on(tmp_path: Path, guidellm: str) -> None:
    cluster, file = Tuned(), tmp_path / "o.json"
    fails = failing_after(1 + 2 * 3 + 2, guidellm, tmp_path)
    result = benched(cluster, tmp_path, "--guidellm", fails, "--rounds", "3", "--save", str(file))
    assert result.exit_code == 2
    assert result.stdout.splitlines()[1].startswith("ended after 2 of 3 rounds: GuideLLM ended with 1;")
    assert result.stderr.splitlines()[-1].startswith("outrider bench: GuideLLM ended with 1;")
    told = json.loads(file.read_text())
    assert [len(arm["slices"]) for arm in told["arms"]] == [2, 2, 2]
    assert told["ended"].startswith("GuideLLM ended with 1;")
    assert cluster.annotations == {}


def test_one_round_is_too_little_to_tell_of(tmp_path: Path, guidellm: str) -> None:
    file = tmp_path / "o.json"
    fails = failing_after(1 + 3 + 2, guidellm, tmp_path)
    result = benched(Tuned(), tmp_path, "--guidellm", fails, "--save", str(file))
    assert (result.exit_code, result.stdout, file.exists()) == (2, "", False)


def test_a_result_that_cannot_be_written_is_still_printed(tmp_path: Path, guidellm: str) -> None:
    result = benched(Tuned(), tmp_path, "--guidellm", guidellm, "--report", str(tmp_path))
    assert result.exit_code == 2
    assert "Verdict: " in result.stdout
    assert f"outrider bench: {tmp_path} was not written: Is a directory." in result.stderr


def test_a_sweep_that_cannot_go_on_has_written_its_whole_rounds(tmp_path: Path, guidellm: str) -> None:
    file = tmp_path / "table.json"
    fails = failing_after(1 + 2 * 2 + 1, guidellm, tmp_path)
    words = ("--streams", "1", "--k", "0", "--k", "5", "--guidellm", fails, "--save", str(file))
    result = swept(Tuned(), tmp_path, *words, "--rounds", "3")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("outrider sweep: GuideLLM ended with 1;")
    assert result.stdout.startswith("default/m, 2 measurements of 10 s each")
    assert "2 measurements" in json.loads(file.read_text())["tables"][0]["source"]


QUESTIONS = """{"question_id": 81, "category": "writing", "turns": ["Write a post.", "Shorten it."]}
{"question_id": 201, "category": "math_reasoning", "turns": ["What is 2 + 2?"]}
{"question_id": 281, "category": "rag", "turns": ["Answer from this passage."]}
"""


def asked(tmp_path: Path, *words: str, uri: str = "hf://org/m") -> tuple[Result, str]:
    """Result, and the words of each run of GuideLLM with the first of its prompts, if there is a file."""
    script = tmp_path / "words.py"
    calls, report = tmp_path / "words", tmp_path / "report.json"
    report.write_text(REPORT)
    script.write_text(
        "import pathlib, sys\n"
        "words = dict(zip(sys.argv[2::2], sys.argv[3::2]))\n"
        f"pathlib.Path(words['--output'].split('path=')[1]).write_text(pathlib.Path({str(report)!r}).read_text())\n"
        "path = words['--data'].partition('path=')[2]\n"
        "first = pathlib.Path(path).read_text().splitlines()[0] if path else ''\n"
        f"open({str(calls)!r}, 'a').write(' '.join(sys.argv) + first + chr(10))\n"
    )
    cluster = Tuned()
    cluster.model["spec"]["model"]["uri"] = uri
    result = benched(cluster, tmp_path, "--guidellm", f"{sys.executable} {script}", *words)
    return result, calls.read_text() if calls.exists() else ""


def test_a_task_of_spec_bench_has_the_first_turns_of_its_questions(tmp_path: Path) -> None:
    file = tmp_path / "question.jsonl"
    file.write_text(QUESTIONS)
    result, words = asked(tmp_path, "--prompts", str(file), "--task", "math")
    assert result.exit_code == 0, result.output
    assert "What is 2 + 2?" in words
    assert "Write a post" not in words


def test_a_file_that_is_not_spec_benchs_is_refused_for_a_task(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_text("plain text\n")
    result, _ = asked(tmp_path, "--prompts", str(file), "--task", "math")
    assert "line 1 has no category and turns; name Spec-Bench's question.jsonl" in flat(result)


def test_a_file_without_questions_of_a_task_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "question.jsonl"
    file.write_text(QUESTIONS)
    result, _ = asked(tmp_path, "--prompts", str(file), "--task", "translation")
    assert "has no question of translation" in flat(result)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--task", "math"), "--task needs Spec-Bench's file"),
        (("--shape", "512/256", "--prompt-set", "gsm8k"), "--prompt-set and --shape both say what to ask"),
        (("--shape", "512"), "--shape: '512' has no two lengths"),
    ],
)
def test_options_that_contradict_one_another_are_refused_before_any_load(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    result, calls = asked(tmp_path, *words)
    assert told in flat(result)
    assert result.exit_code == 2
    assert calls == ""


def test_a_shape_sets_the_length_of_answers_and_a_rate_the_load(tmp_path: Path) -> None:
    result, words = asked(tmp_path, "--shape", "512/256", "--rate", "4", "--temperature", "0")
    assert "max_tokens=256" in words
    assert "kind=huggingface_auto,model=org/m" in words
    assert "kind=poisson,rate=4" in words
    assert "extras.body.temperature=0" in words
    assert "m, 4 requests/s, 2 rounds" in flat(result)


def test_a_shape_of_a_model_without_a_repository_is_refused_before_any_load(tmp_path: Path) -> None:
    result, words = asked(tmp_path, "--shape", "512/256", uri="oci://registry.local/m:1#weights")
    assert "counts tokens with the tokenizer of an hf:// model, and m has oci://registry.local" in flat(
        result
    )
    assert words == ""


def flat(result: Result) -> str:
    """Its text without line breaks."""
    return " ".join(result.output.split())
