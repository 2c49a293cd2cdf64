"""Takes the words that ``outrider bench`` gives to GuideLLM, sends that load, and reports in its form.

For where GuideLLM is not installed. It needs nothing but httpx.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass
class Came:
    """What one stream got."""

    tokens: int = 0
    finished: int = 0
    failed: int = 0


def options(words: list[str]) -> dict[str, dict[str, str]]:
    """`--name key=value,key=value` as mappings."""
    pairs = zip(words[1:-1:2], words[2::2], strict=False)
    return {name: dict(part.split("=", 1) for part in text.split(",")) for name, text in pairs}


def stream(url: str, body: dict[str, object], prompts: list[str], until: float) -> Came:
    """One request after the other until the time is up; the last one is cut off there."""
    came = Came()
    with httpx.Client(timeout=60) as http:
        for prompt in prompts:
            try:
                with http.stream("POST", url, json={**body, "prompt": prompt, "stream": True}) as answer:
                    answer.raise_for_status()
                    began_with = came.tokens
                    for line in answer.iter_lines():
                        if time.monotonic() > until:
                            return came
                        came.tokens = max(came.tokens, began_with + _tokens(line))
                came.finished += 1
            except httpx.HTTPError:
                came.failed += 1
            if time.monotonic() > until:
                break
    return came


def _tokens(line: str) -> int:
    """Of this answer so far."""
    if not line.startswith("data: {"):
        return 0
    usage = json.loads(line.removeprefix("data: ")).get("usage") or {}
    return int(usage.get("completion_tokens") or 0)


def main() -> None:
    """As ``guidellm run``."""
    given = options(sys.argv[1:])
    backend, streams = given["--backend"], int(given["--profile"]["streams"])
    seconds = float(given["--constraint"]["seconds"])
    prompts = [json.loads(line)["prompt"] for line in Path(given["--data"]["path"]).read_text().splitlines()]
    body = {
        "model": backend["model"],
        "max_tokens": int(backend["max_tokens"]),
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    url = f"{backend['target']}/v1/completions"
    began = time.monotonic()
    with ThreadPoolExecutor(streams) as pool:
        shares = (prompts[index::streams] for index in range(streams))
        came = list(pool.map(lambda share: stream(url, body, share, began + seconds), shares))
    rate = {"mean": sum(each.tokens for each in came) / seconds}
    totals = {"successful": sum(c.finished for c in came), "errored": sum(c.failed for c in came)}
    metrics = {
        "request_totals": totals,
        "output_tokens_per_second": {"total": rate},
        "time_to_first_token_ms": {},
        "inter_token_latency_ms": {},
    }
    Path(given["--output"]["path"]).write_text(json.dumps({"benchmarks": [{"metrics": metrics}]}))


if __name__ == "__main__":
    main()
