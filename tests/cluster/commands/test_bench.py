"""``outrider bench`` on a simulated engine: what it measures, and that it leaves nothing behind.

``make test-guidellm`` drives the load by GuideLLM. Else a small program does, whose reports have the same
form, and which knows streams alone.
"""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest

from tests.cluster.commands import NAME, look
from tests.cluster.kubectl import has_condition, wait_for
from tests.cluster.outrider_cli import guidellm, has_no_override, outrider, program

pytestmark = [pytest.mark.engine("twin", "starts")]

LOAD = ("--streams", "4", "--rounds", "2", "--seconds", "5", "--k", "3")


def test_every_arm_gets_a_gain_with_an_interval_and_nothing_is_left() -> None:
    assert gain_of_k_3(*LOAD) > 0


@pytest.mark.skipif(shutil.which("guidellm") is None, reason="`make test-guidellm` has GuideLLM")
def test_with_a_rate_the_speed_of_an_answer_is_compared() -> None:
    """Arrivals decide the tokens per second of all answers."""
    arrivals = ("--rate", "2", "--temperature", "0", "--max-tokens", "32")
    assert gain_of_k_3(*arrivals, "--rounds", "2", "--seconds", "8", "--k", "3") > 1.05


def gain_of_k_3(*words: str) -> float:
    """The ratio to K=0; the bench leaves no override."""
    ended = outrider("bench", NAME, "--yes", "-n", "default", "--guidellm", guidellm(), *words, seconds=600)
    print(ended.err, ended.out, sep="\n")
    assert ended.code == 0, ended.err
    held = next(line for line in ended.out.splitlines() if line.startswith("K=3"))
    assert has_no_override(look())
    return float(held.split("[")[1].split("]")[1].split()[0])


def test_a_bench_whose_terminal_closes_takes_its_override_back() -> None:
    command = [program(), "bench", NAME, "--yes", "-n", "default", "--guidellm", guidellm(), *LOAD]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # Under nohup it would outlive its terminal, as it should.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    ) as running:
        wait_for("it overrules the tuner", look, lambda seen: not has_no_override(seen), seconds=240)
        running.send_signal(signal.SIGHUP)
        _, complaint = running.communicate(timeout=60)
    assert running.returncode == 2
    assert complaint.splitlines()[-1] == "outrider bench: stopped"
    assert has_no_override(look())
    wait_for("tuning goes on", look, lambda seen: has_condition(seen, "TuningActive", "True"), seconds=60)


def test_a_k_that_the_engines_lack_is_one_line() -> None:
    ended = outrider("bench", NAME, "--yes", "-n", "default", "--guidellm", "true", "--k", "99")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("outrider bench: --k 99 is not a candidate")
