"""The Prometheus source against real HTTP on loopback."""

from __future__ import annotations

import base64
import gzip
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from outrider.api.reasons import MetricsReason
from outrider.runtimes.vllm import metrics as names
from outrider.telemetry import prometheus
from outrider.telemetry.budget import Models
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.promql import query
from outrider.telemetry.series import PodKey, Sample, Unreadable
from outrider.telemetry.source import AnswerMalformed, MetricsError, SourceRefused, SourceUnreachable
from tests.unit.telemetry.engine_pages import readable
from tests.unit.telemetry.factories import Handler, a_row, a_server, an_answer, answering, authorization_of
from tests.unit.telemetry.fleet_server import FleetServer, selects

POD = PodKey("default", "a")


def a_source(url: str, models: Callable[[], Models] | None = None, **changes: Any) -> PrometheusSource:
    settings = PrometheusSettings(url=url, **{"timeout_seconds": 20.0, **changes})
    return PrometheusSource(settings, models)


async def error_of(handler: Handler, **changes: Any) -> MetricsError:
    with a_server(handler) as url, pytest.raises(MetricsError) as caught:
        await a_source(url, **changes).fetch(60)
    return caught.value


async def test_reads_raw_samples_per_pod() -> None:
    rows = (
        a_row(values=[[1.5, "10"], [3.5, "20"]], engine="0"),
        a_row(names.ACCEPTED_PER_POSITION, position="1", values=[[1.5, "4"]]),
        a_row(pod="b", values=[[1.5, "7"]]),
    )
    with a_server(answering(an_answer(*rows))) as url:
        found = await a_source(url).fetch(60)
    assert readable(found, POD)[names.GENERATED_TOKENS] == (Sample(1.5, 10.0), Sample(3.5, 20.0))
    assert readable(found, POD)[names.DIALECT.at_position(1)] == (Sample(1.5, 4.0),)
    assert found[PodKey("default", "b")] == {names.GENERATED_TOKENS: (Sample(1.5, 7.0),)}


async def test_asks_once_for_all_models() -> None:
    asked = []

    def handle(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        answering(an_answer())(request)

    with a_server(handle) as url:
        assert await a_source(url + "/").fetch(60) == {}
    assert len(asked) == 1
    question = parse_qs(urlsplit(asked[0]).query)["query"][0]
    assert urlsplit(asked[0]).path == "/api/v1/query"
    assert question.endswith('outrider_dev_model!="",source=~"|local_compute"}[60000ms]')
    assert "generation_tokens_total|inter_token_latency_seconds_count" in question


def test_named_pods_need_no_label_of_a_model() -> None:
    asked = query(60, [PodKey("default", "llm-1")])
    assert "outrider_dev_model" not in asked
    assert 'namespace=~"default",pod=~"llm-1"' in asked


def a_fleet(endings: str) -> FleetServer:
    """Pods with so many rows that an answer holds two of them."""
    return FleetServer({PodKey("default", f"m-{end}"): 30 for end in endings})


TWO_PODS = len(an_answer(*[a_row(pod="m-b")] * 75))


async def test_a_fleet_that_is_too_large_for_one_answer_is_asked_for_in_parts() -> None:
    server = a_fleet("bcd0")
    with a_server(server) as url:
        source = a_source(url, server.models, max_response_bytes=TWO_PODS)
        first, again = await source.fetch(60), await source.fetch(60)
    assert set(first) == set(again) == set(server.rows)
    assert (len(server.asked) - server.counted, server.counted) == (4 + 4, 0)


async def test_only_pods_of_models_are_asked_for_and_read() -> None:
    """A stranger with a namespace of one and the name of another comes along, and is left out."""
    pods = [PodKey("shop", "a"), PodKey("bank", "b")]
    strangers = [PodKey("shop", "b"), PodKey("shop", "c"), PodKey("other", "a")]
    server = FleetServer(dict.fromkeys([*pods, *strangers], 1))
    with a_server(server) as url:
        found = await a_source(url, lambda: dict.fromkeys(pods, "m")).fetch(60)
    assert set(found) == set(pods)
    (asked,) = server.asked
    assert [pod for pod in server.rows if selects(asked, pod)] == [*pods, PodKey("shop", "b")]


async def test_where_there_are_no_pods_prometheus_is_asked_all_the_same() -> None:
    """So that its errors are seen before the first pod is ready."""
    with a_server(answering(an_answer())) as url:
        assert await a_source(url, dict).fetch(60) == {}
    with a_server(answering(b"", status=500)) as url, pytest.raises(SourceRefused):
        await a_source(url, dict).fetch(60)


def without_labels(request: BaseHTTPRequestHandler) -> None:
    """Has series, and none with the labels of a pod."""
    asked = parse_qs(urlsplit(request.path).query)["query"][0]
    unlabelled = 'namespace=""' in asked and 'pod=""' in asked
    count: dict[str, object] = {"metric": {}, "value": [1.0, "7"]}
    answering(an_answer(*([count] if unlabelled else [])))(request)


async def test_targets_without_labels_are_noticed_where_pods_are_asked_for_by_name() -> None:
    with a_server(without_labels) as url, pytest.raises(AnswerMalformed) as caught:
        await a_source(url, lambda: {POD: "m"}).fetch(60)
    assert "Relabel" in caught.value.action


async def test_labels_are_not_blamed_where_other_pods_were_found_and_rest() -> None:
    resting = PodKey("default", "m-b")
    with a_server(without_labels) as url:
        source = a_source(url, lambda: {POD: "m", resting: "m"})
        assert await source.fetch(60, resting={resting}) == {}


async def test_a_fleet_that_fits_into_the_smallest_parts_only_costs_a_dozen_queries_at_most() -> None:
    server = a_fleet("bcdfghj0")
    with a_server(server) as url:
        found = await a_source(url, max_response_bytes=TWO_PODS).fetch(60)
    assert set(found) == set(server.rows)
    assert not any(isinstance(metrics, Unreadable) for metrics in found.values())
    assert len(server.asked) <= 12


async def test_a_fleet_that_does_not_fit_into_the_smallest_parts_is_an_error() -> None:
    error = await error_of(answering(an_answer(*[a_row()] * 100)), max_response_bytes=500)
    assert isinstance(error, AnswerMalformed)


def late(server: FleetServer, monkeypatch: pytest.MonkeyPatch) -> Handler:
    """The same server, whose answers take 35 s each by the source's clock."""
    passed = [0.0]
    monkeypatch.setattr(prometheus, "time", SimpleNamespace(monotonic=lambda: passed[0]))

    def handle(request: BaseHTTPRequestHandler) -> None:
        passed[0] += 35
        server(request)

    return handle


async def test_pods_for_which_there_is_no_time_are_unreadable_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = a_fleet("bcd0")
    with a_server(late(server, monkeypatch)) as url:
        source = a_source(url, server.models, max_response_bytes=TWO_PODS, timeout_seconds=15)
        found = await source.fetch(60)
    useless = [pod for pod, metrics in found.items() if isinstance(metrics, Unreadable)]
    assert (len(found), len(useless)) == (4, 2)
    assert {found[pod] for pod in useless} == {
        Unreadable("not read, because other answers took all the time")
    }


async def test_pods_for_which_there_was_no_time_are_read_first_at_the_next_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = a_fleet("bcd0")
    with a_server(late(server, monkeypatch)) as url:
        source = a_source(url, server.models, max_response_bytes=TWO_PODS, timeout_seconds=15)
        read = [
            {pod for pod, metrics in (await source.fetch(60)).items() if not isinstance(metrics, Unreadable)}
            for _ in range(3)
        ]
    assert read[0] | read[1] == set(server.rows)
    assert read[0] == read[2]


async def test_a_resting_pod_is_not_asked_for_and_its_size_is_known_later() -> None:
    server = a_fleet("bcd0")
    rest = {PodKey("default", "m-b"), PodKey("default", "m-c")}
    with a_server(server) as url:
        source = a_source(url, server.models, max_response_bytes=TWO_PODS)
        await source.fetch(60)
        before = len(server.asked)
        assert set(await source.fetch(60, resting=rest)) == server.rows.keys() - rest
        (*asked,) = server.asked[before:]
        assert not any(selects(query, pod) for query in asked for pod in rest)
        assert set(await source.fetch(60)) == set(server.rows)
    assert server.counted == 0


async def test_a_problem_of_a_resting_pod_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with a_server(answering(an_answer(a_row(values=[["never", "1"]]), a_row(pod="b")))) as url:
        source = a_source(url, lambda: dict.fromkeys([POD, PodKey("default", "b")], "m"))
        for rest in (set[PodKey](), {POD}, set[PodKey]()):
            await source.fetch(60, resting=rest)
    assert len([record for record in caplog.records if str(POD) in record.getMessage()]) == 1


async def test_a_part_that_is_refused_costs_its_own_pods() -> None:
    server = a_fleet("bcd0")

    def handle(request: BaseHTTPRequestHandler) -> None:
        asked = parse_qs(urlsplit(request.path).query)["query"][0]
        refused = selects(asked, PodKey("default", "m-b"))
        (answering(b"too many samples", status=422) if refused else server)(request)

    with a_server(handle) as url:
        found = dict(await a_source(url, server.models, max_response_bytes=TWO_PODS).fetch(60))
    assert found.pop(PodKey("default", "m-b")) == Unreadable("HTTP 422: too many samples")
    assert not any(isinstance(metrics, Unreadable) for metrics in found.values())


async def test_where_every_part_is_refused_that_is_the_error() -> None:
    server = a_fleet("bcd0")
    with a_server(answering(b"", status=503)) as url, pytest.raises(SourceRefused, match="503"):
        await a_source(url, server.models, max_response_bytes=TWO_PODS).fetch(60)


async def test_engines_of_one_pod_are_added_where_both_have_a_sample() -> None:
    rows = (
        a_row(engine="0", values=[[1, "10"], [2, "20"], [3, "30"]]),
        a_row(engine="1", values=[[1, "1"], [3, "3"]]),
        a_row(names.KV_USAGE, engine="0", values=[[1, "0.2"]]),
        a_row(names.KV_USAGE, engine="1", values=[[1, "0.7"]]),
    )
    with a_server(answering(an_answer(*rows))) as url:
        found = await a_source(url).fetch(60)
    assert readable(found, POD)[names.GENERATED_TOKENS] == (Sample(1, 11.0), Sample(3, 33.0))
    assert readable(found, POD)[names.KV_USAGE] == (Sample(1, 0.7),)


async def test_a_pod_that_two_jobs_scrape_counts_once() -> None:
    rows = (
        a_row(job="one", values=[[1, "10"], [2, "20"]]),
        a_row(job="two", values=[[1.5, "15"], [2.5, "25"]]),
    )
    with a_server(answering(an_answer(*rows))) as url:
        found = await a_source(url).fetch(60)
    assert readable(found, POD)[names.GENERATED_TOKENS] == (Sample(1.5, 15.0), Sample(2.5, 25.0))


async def test_values_that_are_not_finite_are_left_out() -> None:
    rows = [[1, "NaN"], [2, "5"], [3, "+Inf"], [4, "-Inf"]]
    with a_server(answering(an_answer(a_row(values=rows)))) as url:
        found = await a_source(url).fetch(60)
    assert readable(found, POD)[names.GENERATED_TOKENS] == (Sample(2, 5.0),)


async def test_reads_a_compressed_answer() -> None:
    body = gzip.compress(an_answer(a_row()))
    with a_server(answering(body, headers={"Content-Encoding": "gzip"})) as url:
        assert POD in await a_source(url).fetch(60)


async def test_nobody_listening_is_unreachable() -> None:
    with a_server(answering(b"")) as url:
        pass
    with pytest.raises(SourceUnreachable) as caught:
        await a_source(url).fetch(60)
    assert caught.value.reason is MetricsReason.PROMETHEUS_UNREACHABLE
    assert "refused" in str(caught.value)
    assert "query" not in str(caught.value)
    assert url in caught.value.action


async def test_a_silent_server_is_unreachable_after_the_timeout() -> None:
    released = threading.Event()

    def silent(_: BaseHTTPRequestHandler) -> None:
        released.wait(300)

    started = time.monotonic()
    try:
        error = await error_of_silent(silent, released)
    finally:
        released.set()
    assert isinstance(error, SourceUnreachable)
    assert time.monotonic() - started < 60


async def error_of_silent(handler: Handler, released: threading.Event) -> MetricsError:
    with a_server(handler) as url:
        try:
            with pytest.raises(MetricsError) as caught:
                await a_source(url, timeout_seconds=0.2).fetch(60)
        finally:
            released.set()
    return caught.value


async def test_an_answer_that_drips_is_unreachable_after_the_timeout() -> None:
    done = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        try:
            while not done.wait(0.05):
                request.wfile.write(b" ")
        except OSError:
            return

    started = time.monotonic()
    with a_server(drip) as url:
        try:
            with pytest.raises(SourceUnreachable):
                await a_source(url, timeout_seconds=0.3).fetch(60)
        finally:
            done.set()
    assert time.monotonic() - started < 60


async def test_a_cut_answer_is_an_error() -> None:
    def cut(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(an_answer(a_row())[:40])

    error = await error_of(cut)
    assert isinstance(error, (SourceUnreachable, AnswerMalformed))


async def test_the_body_may_not_be_larger_than_the_limit() -> None:
    error = await error_of(answering(an_answer(*[a_row()] * 100)), max_response_bytes=5000)
    assert isinstance(error, AnswerMalformed)
    assert "5000" in str(error)


async def test_a_small_body_that_unpacks_to_a_large_one_is_refused() -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    error = await error_of(
        answering(bomb, headers={"Content-Encoding": "gzip"}), max_response_bytes=1_000_000
    )
    assert isinstance(error, AnswerMalformed)


@pytest.mark.parametrize("status", [400, 404, 422, 500, 503])
async def test_an_http_error_is_refused_and_tried_only_once(status: int) -> None:
    asked = []

    def handle(request: BaseHTTPRequestHandler) -> None:
        asked.append(1)
        answering(b"x" * 1000, status=status)(request)

    error = await error_of(handle)
    assert isinstance(error, SourceRefused)
    assert error.reason is MetricsReason.PROMETHEUS_ERROR
    assert str(status) in str(error)
    assert len(str(error)) < 400
    assert len(asked) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_login_says_to_check_the_credentials(status: int) -> None:
    assert "credentials" in (await error_of(answering(b"", status=status))).action


async def test_status_error_is_refused_even_with_http_200() -> None:
    error = await error_of(answering(an_answer(status="error")))
    assert isinstance(error, SourceRefused)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b"null",
        b"{}",
        b'{"status":"success","data":null}',
        b'{"status":"success","data":{"resultType":"matrix","result":{}}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}',
        b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
        b"\xff\xfe\x00",
    ],
    ids=range(12),
)
async def test_anything_but_a_range_vector_is_malformed(body: bytes) -> None:
    assert isinstance(await error_of(answering(body)), AnswerMalformed)


async def test_series_without_pod_labels_are_malformed() -> None:
    error = await error_of(answering(an_answer(a_row(namespace=""))))
    assert isinstance(error, AnswerMalformed)
    assert "Relabel" in error.action


async def test_a_bearer_token_is_read_anew_at_every_call(tmp_path: Path) -> None:
    token, seen = tmp_path / "token", list[str | None]()
    with a_server(authorization_of(seen)) as url:
        source = a_source(url, bearer_token_file=token)
        for text in ("first\n", "second\n"):
            token.write_text(text)
            await source.fetch(60)
    assert seen == ["Bearer first", "Bearer second"]


async def test_basic_auth_is_sent(tmp_path: Path) -> None:
    password, seen = tmp_path / "password", list[str | None]()
    password.write_text("s3cret\n")
    with a_server(authorization_of(seen)) as url:
        await a_source(url, username="outrider", password_file=password).fetch(60)
    assert seen == ["Basic " + base64.b64encode(b"outrider:s3cret").decode()]


async def test_without_credentials_none_are_sent() -> None:
    seen = list[str | None]()
    with a_server(authorization_of(seen)) as url:
        await a_source(url).fetch(60)
    assert seen == [None]


async def test_a_missing_token_file_is_refused_without_asking(tmp_path: Path) -> None:
    seen = list[str | None]()
    with a_server(authorization_of(seen)) as url, pytest.raises(SourceRefused) as caught:
        await a_source(url, bearer_token_file=tmp_path / "none").fetch(60)
    assert seen == []
    assert "Secret" in caught.value.action


async def test_errors_never_carry_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("very-secret")
    with a_server(answering(b"no", status=500)) as url, pytest.raises(MetricsError) as caught:
        await a_source(url, bearer_token_file=token).fetch(60)
    assert "very-secret" not in f"{caught.value} {caught.value.action}"


@pytest.mark.parametrize(
    "url", ["", "prometheus:9090", "ftp://prometheus", "http://", "http://user:pw@prometheus"]
)
def test_a_url_that_cannot_work_or_holds_credentials_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        PrometheusSettings(url=url)
    assert "pw" not in str(caught.value)
