"""The real Prometheus, which finds the pods of all lives, and wrong versions of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from outrider.telemetry.series import MAX_SERIES
from tests.lifecycle.api_server import ApiServer, running
from tests.lifecycle.releases import ROOT
from tests.ports import free_port

_MANIFESTS = ROOT / "tests/environment/prometheus/prometheus.yaml"
ERROR = b'{"status":"error","errorType":"execution","error":"a fault"}'
Row = dict[str, Any]
"""``metric``: its labels. ``values``: pairs of unix seconds and text."""


@contextmanager
def a_prometheus(server: ApiServer, folder: Path, *, scrape_seconds: int | None = None) -> Iterator[str]:
    """In the block it scrapes the pods of this API server as in the local cluster. Yields its address.

    scrape_seconds: between two scrapes; None for the local cluster's.
    """
    documents = yaml.safe_load_all(_MANIFESTS.read_text())
    found = next(each for each in documents if each["kind"] == "ConfigMap")
    config = yaml.safe_load(found["data"]["prometheus.yml"])
    of_pods = config["scrape_configs"][0]
    of_pods["kubernetes_sd_configs"] = [
        {"role": "pod", "kubeconfig_file": str(server.kubeconfig("prometheus"))}
    ]
    if scrape_seconds is not None:
        of_pods["scrape_interval"] = f"{scrape_seconds}s"
    file, port = folder / "prometheus.yml", free_port()
    file.write_text(yaml.safe_dump({**config, "scrape_configs": [of_pods]}))
    options = [
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running("prometheus", options, folder / "prometheus.log"):
        yield f"http://127.0.0.1:{port}"


def of_rows(change: Callable[[list[Row]], list[Row]]) -> Callable[[bytes], bytes]:
    """A rewriting of the rows of an answer."""

    def rewrite(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["data"]["result"] = change(answer["data"]["result"])
        return json.dumps(answer).encode()

    return rewrite


def of_samples(change: Callable[[float, str], tuple[float, str]]) -> Callable[[bytes], bytes]:
    """A rewriting of each sample of an answer."""
    return of_rows(
        lambda rows: [
            {**row, "values": [change(at, value) for at, value in row["values"]]} if "values" in row else row
            for row in rows
        ]
    )


def too_many(rows: list[Row]) -> list[Row]:
    """The first row of each pod, as often as no pod may have it."""
    firsts = {row["metric"].get("pod"): row for row in rows}
    return [
        {**row, "metric": {**row["metric"], "copy": str(number)}, "values": row.get("values", [])[-1:]}
        for row in firsts.values()
        for number in range(MAX_SERIES + 1)
    ]


def backwards(rows: list[Row]) -> list[Row]:
    """Counters that fall: the values in the opposite order."""
    return [
        {
            **row,
            "values": [
                (at, old) for (at, _), (_, old) in zip(row["values"], reversed(row["values"]), strict=True)
            ],
        }
        if "values" in row
        else row
        for row in rows
    ]


def without(metric: str) -> Callable[[bytes], bytes]:
    """An answer that lacks a metric."""
    return of_rows(lambda rows: [row for row in rows if row["metric"].get("__name__") != metric])


class Stopped:
    """A Prometheus that scrapes nothing more: every answer is the first one."""

    def __init__(self) -> None:
        self._first: bytes | None = None

    def __call__(self, body: bytes) -> bytes:
        self._first = self._first or body
        return self._first
