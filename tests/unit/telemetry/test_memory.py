"""The largest honest fleet, and the worst that answers may hold, in a process that starts afresh."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MIB = 1024 * 1024
LEFT_MIB = 512 - 110
"""Of the chart's limit, once the operator's modules are loaded."""

SERVE = """
import json, re, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit
sys.path.insert(0, ".")
from tests.unit.telemetry.memory_scenes import SCENES
scene = SCENES[sys.argv[1]]

class Prometheus(BaseHTTPRequestHandler):
    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        body = scene.answer(query)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Prometheus)
print(server.server_port, flush=True)
server.serve_forever()
"""

FETCH = """
import asyncio, json, resource, sys
import outrider.controller.process
sys.path.insert(0, ".")
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import Unreadable
from tests.unit.telemetry.memory_scenes import SCENES

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

async def main():
    scene = SCENES[sys.argv[1]]
    url = f"http://127.0.0.1:{sys.argv[2]}"
    source = PrometheusSource(PrometheusSettings(url, timeout_seconds=300), scene.models)
    before = peak()
    found = await source.fetch(16)
    read = {pod.namespace for pod, metrics in found.items() if not isinstance(metrics, Unreadable)}
    useless = sum(isinstance(metrics, Unreadable) for metrics in found.values())
    print(json.dumps({"before": before, "peak": peak(), "pods": len(found), "useless": useless,
                      "namespaces": sorted(read)}))
    source.close()

asyncio.run(main())
"""


def measured(scene: str) -> dict[str, float]:
    with subprocess.Popen([sys.executable, "-c", SERVE, scene], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            command = [sys.executable, "-c", FETCH, scene, port]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        finally:
            server.kill()
    found: dict[str, float] = json.loads(out)
    print(scene, found)
    return found


def test_850_honest_pods_take_a_part_of_the_memory_that_is_left() -> None:
    found = measured("honest")
    assert (found["pods"], found["useless"]) == (850, 0)
    assert found["peak"] - found["before"] < 0.5 * LEFT_MIB


@pytest.mark.parametrize("scene", ["brackets", "samples"])
def test_the_worst_answers_take_a_part_of_it_and_cost_their_own_pods(scene: str) -> None:
    found = measured(scene)
    assert found["peak"] - found["before"] < 0.6 * LEFT_MIB
    assert found["namespaces"][-1] == "shop"  # type: ignore[index]
