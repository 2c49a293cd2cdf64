"""SGLang's page of metrics becomes common counters: by the plugin's cells, or by gauges without positions."""

from __future__ import annotations

import pytest

from outrider.runtimes.sglang.metrics import DIALECT
from outrider.telemetry.series import PodSeries, Unreadable
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Gap, GapReason, Window
from tests.unit.telemetry.engine_pages import A, Engines, page

OF_RANK = 'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
OF_SERVER = 'engine_type="unified",model_name="m"'


def a_page(
    *, tokens: float, requests: float, passes: float, seconds: float, length: float = 2.5, width: float = 4
) -> str:
    """As SGLang 0.5.23 writes it, with requests that stream and requests that do not."""
    return "\n".join(
        [
            f"sglang:inter_token_latency_seconds_count{{{OF_SERVER}}} {tokens}",
            f"sglang:inter_token_latency_seconds_sum{{{OF_SERVER}}} {seconds}",
            f'sglang:time_to_first_token_seconds_count{{{OF_SERVER},is_streaming="true"}} {requests}',
            f'sglang:time_to_first_token_seconds_count{{{OF_SERVER},is_streaming="false"}} 1',
            f'sglang:cuda_graph_passes_total{{{OF_RANK},mode="decode_cuda_graph"}} {passes}',
            f'sglang:cuda_graph_passes_total{{{OF_RANK},mode="prefill_none"}} {requests}',
            f"sglang:spec_accept_length{{{OF_RANK}}} {length}",
            f"sglang:spec_num_draft_tokens{{{OF_RANK}}} {width}",
            f"sglang:num_queue_reqs{{{OF_RANK}}} 3",
            f"sglang:token_usage{{{OF_RANK}}} 0.25",
            "",
        ]
    )


async def scraped(*pages: str) -> PodSeries:
    """As its pages are read, ten seconds apart."""
    engines = Engines(a=page(b""))
    async with engines.source() as source:
        for index, body in enumerate(pages):
            engines.now, engines.answers["a"] = 100.0 + 10 * index, page(body.encode())
            series = (await source.fetch(60))[A]
    assert not isinstance(series, Unreadable)
    return series


def window(series: PodSeries) -> Window | Gap:
    return build_window(A, series, dialect=DIALECT, since=0, until=130, max_age_seconds=30)


async def test_without_the_plugin_the_mean_length_gives_steps_and_accepted_tokens() -> None:
    found = window(
        await scraped(
            a_page(tokens=0, requests=4, passes=0, seconds=0),
            a_page(tokens=1000, requests=8, passes=100, seconds=40),
        )
    )
    assert isinstance(found, Window)
    assert (found.request_steps, found.accepted_tokens, found.draft_tokens) == (400, 600, 1200)
    assert (found.engine_steps, found.first_tokens, found.decode_tokens) == (104, 4, 1000)
    assert (found.decode_seconds, found.requests_waiting, found.kv_usage_ratio) == (40, 3, 0.25)
    assert (found.accepted_per_position, found.cells) == ((), ())


async def test_without_speculation_every_token_is_a_step() -> None:
    found = window(
        await scraped(
            a_page(tokens=0, requests=4, passes=0, seconds=0, length=0, width=0),
            a_page(tokens=1000, requests=8, passes=100, seconds=40, length=0, width=0),
        )
    )
    assert isinstance(found, Window)
    assert (found.request_steps, found.drafts, found.draft_tokens, found.accepted_tokens) == (1000, 0, 0, 0)


def cells(*, steps: float) -> str:
    """Of four requests in each step, with two tokens drafted and one of them accepted."""
    of = 'engine="0",model_name="m",batch="4-6",k="2"'
    rows = {
        f"outrider:steps_total{{{of}}}": steps,
        f"outrider:step_seconds_total{{{of}}}": steps / 100,
        f"outrider:scheduled_requests_total{{{of}}}": 4 * steps,
        f"outrider:emitted_tokens_total{{{of}}}": 8 * steps,
        f"outrider:prefill_tokens_total{{{of}}}": 0,
        f"outrider:context_tokens_total{{{of}}}": 400 * steps,
        **{f'outrider:draft_tokens_total{{{of},position="{j}"}}': 4 * steps for j in range(2)},
        f'outrider:accepted_tokens_total{{{of},position="0"}}': 4 * steps,
        'outrider:epoch{engine="0",model_name="m"}': 1,
    }
    return "".join(f"{name} {value}\n" for name, value in rows.items())


async def test_with_the_plugin_its_counters_are_the_sums() -> None:
    found = window(
        await scraped(
            a_page(tokens=0, requests=4, passes=0, seconds=0) + cells(steps=0),
            a_page(tokens=800, requests=8, passes=100, seconds=4) + cells(steps=100),
        )
    )
    assert isinstance(found, Window), found
    assert (found.engine_steps, found.request_steps, found.accepted_tokens) == (100, 400, 400)
    assert (found.drafts, found.draft_tokens) == (400, 800)
    (cell,) = found.cells
    assert (cell.num_speculative_tokens, cell.steps, cell.accepted_per_position) == (2, 100, (400, 0))


async def test_without_the_gauges_the_message_says_what_cannot_be_counted() -> None:
    found = window(await scraped(f"sglang:num_queue_reqs{{{OF_RANK}}} 3\n"))
    assert isinstance(found, Gap)
    assert found.reason is GapReason.NO_SERIES
    assert "sglang:cuda_graph_passes_total" in found.detail


@pytest.mark.parametrize("gauge", DIALECT.means)
async def test_a_mean_of_several_ranks_is_no_sum(gauge: str) -> None:
    rank = OF_RANK + ',dp_rank="{}"'
    series = await scraped("".join(f"{gauge}{{{rank.format(number)}}} {number + 2}\n" for number in range(2)))
    assert [sample.value for sample in series[gauge]] == [3]
