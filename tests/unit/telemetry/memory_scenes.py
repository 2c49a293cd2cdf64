"""Fleets whose answers are large."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from outrider.runtimes.vllm import metrics as names
from outrider.telemetry.series import PodKey

SERIES, SAMPLES = 200, 4
SHOP = PodKey("shop", "engine-0")
_MATCHER = re.compile(r'(namespace|pod)=~"((?:[^"\\]|\\.)*)"')


def a_row(index: int, *, samples: int = SAMPLES, **labels: str) -> bytes:
    """One series with the labels that a PodMonitor gives, for any pod."""
    metric = {
        "__name__": tuple(names.DIALECT.cells.values())[index % 6],
        "namespace": "@namespace@",
        "pod": "@pod@",
        "job": "outrider-engines",
        "instance": "10.0.0.1:8000",
        "container": "engine",
        "endpoint": "http",
        "outrider_dev_model": "llama",
        "model_name": "llama",
        "engine": "0",
        "batch": str(index // 6 % 33 + 1),
        "k": str(index // 198),
    }
    values = [[1764000000.123 + 5 * at, str(1000 + index + at)] for at in range(samples)]
    return json.dumps({"metric": {**metric, **labels}, "values": values}).encode()


HONEST = b",".join(a_row(index) for index in range(SERIES))
OFTEN_SCRAPED = b",".join(a_row(index, samples=1000) for index in range(150))
BRACKETS = a_row(0).partition(b'"values"')[0] + b'"values": [%s[]]}' % (b"[]," * 2_500_000)
"""What a Prometheus never sends, and what takes most memory per byte."""


@dataclass(frozen=True)
class Scene:
    """Pods, and what those of all namespaces but `shop` show."""

    pods: tuple[PodKey, ...]
    rows: bytes

    def models(self) -> Mapping[PodKey, str]:
        return dict.fromkeys(self.pods, "llama")

    def answer(self, query: str) -> bytes:
        """What a Prometheus would answer, cut behind what is read of it."""
        taken = list(self.pods)
        for label, expression in _MATCHER.findall(query):
            wanted = re.compile(json.loads(f'"{expression}"'))
            taken = [pod for pod in taken if wanted.fullmatch(getattr(pod, label))]
        if query.startswith("count"):
            rows = [
                json.dumps({"metric": pod._asdict(), "value": [1, str(SERIES)]}).encode() for pod in taken
            ]
            return _whole(rows)
        return _whole([self._rows(pod) for pod in taken])

    def _rows(self, pod: PodKey) -> bytes:
        rows = HONEST if pod.namespace == SHOP.namespace else self.rows
        return rows.replace(b"@namespace@", pod.namespace.encode()).replace(b"@pod@", pod.pod.encode())


def _whole(rows: list[bytes]) -> bytes:
    return b'{"status": "success", "data": {"resultType": "matrix", "result": [%s]}}' % b",".join(rows)


def _tenant(pods: int) -> tuple[PodKey, ...]:
    return (SHOP, *(PodKey("bank", f"engine-{index}") for index in range(pods)))


SCENES: Mapping[str, Scene] = {
    "honest": Scene(
        tuple(PodKey(f"team-{index % 17}", f"engine-7d9f8b6c5-{index:05d}") for index in range(850)), HONEST
    ),
    "brackets": Scene(_tenant(2), BRACKETS),
    "samples": Scene(_tenant(4), OFTEN_SCRAPED),
}
