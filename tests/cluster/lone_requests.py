"""Single requests to an idle engine, and what its counters gain by them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.api_server import read
from tests.cluster.kubectl import Object, kubectl, namespace, wait_for

TOKENS = 12
HELD_AT_TWO: Object = {
    "method": "eagle3",
    "drafter": {"uri": "pvc://tiny-models/eagle3"},
    "numSpeculativeTokens": 3,
    "candidates": [0, 1, 2, 3],
    "schedule": [{"numSpeculativeTokens": 2}],
    "tuning": {"mode": "Off", "sweep": "Never"},
}
"""`spec.speculation` with the tiny EAGLE-3 head, whose K nothing changes but overrides."""
COMPLETE = """
import json, sys, urllib.request
body = {"model": "tiny", "temperature": 0, "ignore_eos": True} | json.loads(sys.argv[1])
headers = {"Content-Type": "application/json"} | json.loads(sys.argv[2])
url = "http://127.0.0.1:8000/v1/completions"
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
print(urllib.request.urlopen(request, timeout=120).read().decode())
"""
AT = "drafted at "


def complete(pod: str, body: Object, headers: Mapping[str, str]) -> int:
    """The tokens of one answer."""
    done = kubectl(
        *("exec", pod, "-n", namespace(), "-c", "engine", "--"),
        *("python3", "-c", COMPLETE, json.dumps(body), json.dumps(headers)),
    )
    return int(json.loads(done)["usage"]["completion_tokens"])


def counted_by(
    pod: str,
    prompt: str,
    *,
    generated: str,
    tokens: int = TOKENS,
    headers: Mapping[str, str] | None = None,
    **body: object,
) -> Counter[str]:
    """What the counters of an idle engine gain by one answer. generated: its own counter of tokens."""
    before = counters(pod)
    assert complete(pod, {"prompt": prompt, "max_tokens": tokens, **body}, headers or {}) == tokens
    wanted = before[generated] + tokens
    wait_for(
        "counted", lambda: dict(counters(pod)), lambda seen: (seen or {})[generated] >= wanted, seconds=30
    )
    counted = counters(pod)
    counted.subtract(before)
    return counted


def drafted_at(counted: Counter[str]) -> set[int]:
    """Positions at which an answer had draft tokens to verify."""
    return {int(name.removeprefix(AT)) for name, value in counted.items() if name.startswith(AT) and value}


def counters(pod: str) -> Counter[str]:
    """Sums of the engine's counters, and those of draft tokens by position."""
    text = read(f"/api/v1/namespaces/{namespace()}/pods/{pod}:8000/proxy/metrics", seconds=15)
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] += sample.value  # type: ignore[assignment]
            if sample.name == "outrider:draft_tokens_total":
                found[f"{AT}{sample.labels['position']}"] += sample.value  # type: ignore[assignment]
    return found
