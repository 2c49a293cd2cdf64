"""``outrider verify`` with an operator and an engine that are stand-ins: what it asks, and takes back."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.main import app
from tests.unit.cli.kit import Tuned
from tests.unit.cli.kubernetes import Body, serving

_NEVER_THE_SAME = count()

Engine = Callable[[str, Body], tuple[int, Body]]
"""Table in force and request -> status and answer."""


@contextmanager
def an_engine(cluster: Tuned, answer: Engine, asked: list[tuple[str, Body]]) -> Iterator[str]:
    """Serves completions by the table that the cluster's model has."""

    class Requests(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            table = cluster.model["status"]["speculation"]["scheduleSummary"]
            asked.append((table, body))
            status, found = answer(table, body)
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def a_choice(tokens: list[str]) -> Body:
    top = [{token: -0.2, "other": -3.0} for token in tokens]
    return {"logprobs": {"tokens": tokens, "top_logprobs": top}}


FINDING = '{"language": "go", "severity": "low", "line": 9, "tags": ["race"]}'
WEATHER = '{"city": "Oslo", "unit": "celsius"}'


def a_chat(tokens: str, content: str | None, *calls: tuple[str, str]) -> tuple[int, Body]:
    steps = [{"token": each, "top_logprobs": [{"token": each, "logprob": -0.1}]} for each in tokens]
    found = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    choice = {"message": {"content": content, "tool_calls": found}, "logprobs": {"content": steps}}
    return 200, {"choices": [choice | {"finish_reason": "stop"}]}


def lossless(_: str, body: Body) -> tuple[int, Body]:
    """The same distribution whatever the table: greedy by the prompt, sampled by the seed."""
    if "tools" in body:
        return a_chat("call", None, ("get_weather", WEATHER))
    if "messages" in body:
        return a_chat("json", FINDING)
    if body["temperature"] == 0:
        return 200, {"choices": [a_choice(["a", "b", "c"])]}
    chooser = random.Random(body["seed"])
    return 200, {"choices": [a_choice(chooser.choices("abcd", k=3)) for _ in range(body["n"])]}


def broken(table: str, body: Body) -> tuple[int, Body]:
    """Drafts change a token that was likely."""
    if "prompt" in body and body["temperature"] == 0 and table != "*:0":
        return 200, {"choices": [a_choice(["a", "x", "c"])]}
    return lossless(table, body)


def misquoting(table: str, body: Body) -> tuple[int, Body]:
    """Drafts swallow the last quote of a tool call, and the parser makes of it what it can."""
    if "tools" in body and table != "*:0":
        return a_chat("call", None, ("get_weather", WEATHER[:-2]))
    return lossless(table, body)


def failing(table: str, body: Body) -> tuple[int, Body]:
    """The grammar refuses a draft, and the request ends."""
    if "response_format" in body and table != "*:0":
        return 500, {"error": {"message": "grammar rejected tokens"}}
    return lossless(table, body)


def without_parser(table: str, body: Body) -> tuple[int, Body]:
    """No tool parser was configured."""
    if "tools" in body:
        return 400, {"error": {"message": '"auto" tool choice requires --tool-call-parser to be set'}}
    return lossless(table, body)


def shaky(table: str, body: Body) -> tuple[int, Body]:
    """Each answer differs from the one before, whatever the table."""
    if "prompt" in body and body["temperature"] == 0:
        return 200, {"choices": [a_choice(["a", str(next(_NEVER_THE_SAME)), "c"])]}
    return lossless(table, body)


def skewed(table: str, body: Body) -> tuple[int, Body]:
    """Drafts change how often the second token is which."""
    status, found = lossless(table, body)
    if body["temperature"] and table != "*:0":
        for choice in found["choices"]:
            choice["logprobs"]["tokens"][1] = "a"
    return status, found


def verified(cluster: Tuned, tmp_path: Path, engine: Engine, *words: str) -> tuple[Result, list[Any]]:
    asked: list[tuple[str, Body]] = []
    with serving(cluster, tmp_path) as environment, an_engine(cluster, engine, asked) as url:
        command = ["verify", "m", "--yes", "--url", url, "--samples", "200", *words]
        return CliRunner().invoke(app, command, env=environment), asked


@pytest.mark.parametrize(
    ("engine", "verdict", "code"),
    [
        (lossless, "Lossless", 0),
        (without_parser, "Lossless", 0),
        (broken, "Defect", 1),
        (failing, "Defect", 1),
        (misquoting, "Broken", 1),
        (skewed, "Shifted", 1),
        (shaky, "Undecided", 1),
    ],
)
def test_an_engine_is_told_for_what_it_is(tmp_path: Path, engine: Engine, verdict: str, code: int) -> None:
    cluster = Tuned()
    result, _ = verified(cluster, tmp_path, engine, "--json")
    assert (json.loads(result.stdout)["verdict"], result.exit_code) == (verdict, code)
    assert cluster.annotations == {}


@pytest.mark.parametrize(("engine", "again"), [(lossless, 0), (broken, 1)])
def test_greedy_answers_are_asked_again_without_drafts_where_drafts_change_some(
    tmp_path: Path, engine: Engine, again: int
) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text("one\ntwo\n")
    result, asked = verified(Tuned(), tmp_path, engine, "--prompts", str(prompts), "--k", "5")
    greedy = [
        (table, body["prompt"]) for table, body in asked if "prompt" in body and body["temperature"] == 0
    ]
    plain, speculated = [[(table, "one"), (table, "two")] for table in ("*:0", "*:5")]
    assert greedy == plain + speculated + plain * again
    assert result.stdout.count("  K=0 and K=0: 2 equal") == again


@pytest.mark.parametrize(("engine", "again"), [(lossless, 0), (failing, 8)])
def test_structured_answers_are_greedy_and_asked_again_without_drafts_where_drafts_change_some(
    tmp_path: Path, engine: Engine, again: int
) -> None:
    _, asked = verified(Tuned(), tmp_path, engine)
    sent = [(table, body["temperature"]) for table, body in asked if "response_format" in body]
    assert sent == [("*:0", 0)] * 8 + [("*:5", 0)] * 8 + [("*:0", 0)] * again


def test_structured_answers_are_compared_by_question(tmp_path: Path) -> None:
    result, _ = verified(Tuned(), tmp_path, lossless)
    assert "JSON by a schema: 8 greedy answers\n  K=5 and K=0: 8 equal" in result.stdout
    assert "Tool calls: 8 greedy answers\n  K=5 and K=0: 8 equal" in result.stdout


def test_an_engine_without_a_tool_parser_is_asked_once_and_the_reason_printed(tmp_path: Path) -> None:
    result, asked = verified(Tuned(), tmp_path, without_parser)
    reason = 'the engine answers 400: "auto" tool choice requires --tool-call-parser to be set'
    assert f"Tool calls: not asked, because {reason}" in result.stdout
    assert len([body for _, body in asked if "tools" in body]) == 1


def test_a_form_that_drafts_break_is_named_with_its_fault(tmp_path: Path) -> None:
    result, _ = verified(Tuned(), tmp_path, misquoting)
    assert "  without their form: 8 with K=5, 0 with K=0" in result.stdout
    assert "  question 1, with drafts only: answer: Invalid JSON" in result.stdout


def test_structured_answers_can_be_left_out(tmp_path: Path) -> None:
    result, asked = verified(Tuned(), tmp_path, lossless, "--no-structured")
    assert not any("messages" in body for _, body in asked)
    assert "JSON" not in result.stdout


def test_no_sampled_answer_of_one_side_has_the_seed_of_another(tmp_path: Path) -> None:
    _, asked = verified(Tuned(), tmp_path, lossless)
    seeds = [body["seed"] + index for _, body in asked if body["temperature"] for index in range(body["n"])]
    assert len(seeds) == len(set(seeds)) == 400


def test_engines_that_compute_nothing_are_refused(tmp_path: Path) -> None:
    cluster = Tuned()
    cluster.model["status"]["speculation"]["simulated"] = "h100_8b"
    result, asked = verified(cluster, tmp_path, lossless)
    assert result.exit_code == 2
    assert "outrider verify: the engines of m are simulated" in result.output
    assert (asked, cluster.written) == ([], [])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((400, {"message": "no logprobs here"}), "answers 400: "),
        ((200, {"choices": [{"text": "x"}]}), "answers without log-probabilities in vLLM's form"),
    ],
)
def test_an_engine_that_does_not_answer_so_is_one_line_and_nothing_is_left(
    tmp_path: Path, answer: tuple[int, Body], told: str
) -> None:
    cluster = Tuned()
    result, _ = verified(cluster, tmp_path, lambda *_: answer)
    assert result.exit_code == 2
    assert told in result.output.splitlines()[-1]
    assert cluster.annotations == {}


def test_greedy_answers_are_told_of_where_sampled_ones_fail(tmp_path: Path) -> None:
    def fails_at_last(table: str, body: Body) -> tuple[int, Body]:
        tired = body["temperature"] and table != "*:0"
        return (500, {"message": "tired"}) if tired else lossless(table, body)

    cluster = Tuned()
    result, _ = verified(cluster, tmp_path, fails_at_last)
    assert result.exit_code == 2
    assert "  K=5 and K=0: 16 equal, 0 part at a tie, 0 differ" in result.stdout
    assert "Ended early, so the other answers were not compared: " in result.stdout
    assert result.stderr.splitlines()[-1].endswith('answers 500: {"message": "tired"}')
    assert cluster.annotations == {}


def test_greedy_answers_are_told_of_where_nobody_knows_what_was_held_for_sampled_ones(tmp_path: Path) -> None:
    cluster, sampled = Tuned(), []

    def watched(table: str, body: Body) -> tuple[int, Body]:
        if body["temperature"] and table != "*:0":
            sampled.append(body)
        return lossless(table, body)

    cluster.refused = lambda *_: len(sampled) >= 10
    result, _ = verified(cluster, tmp_path, watched, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["sampled"], len(told["greedy"])) == (2, [], 16)
    assert "forbidden" in told["ended"]
