"""API writes and CPU of kopf's change handlers against event handlers with a queue (decision 9).

``python -m tests.bench.kopf_handlers`` prints one table. Each run starts an operator process against a server
of this process, which answers like an API server. The operators reconcile alike: one status per generation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import resource
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import kopf
from aiohttp import web

from outrider.cluster.resources import MODELS
from outrider.controller.kopf_operator import NothingKept, configure
from outrider.controller.work_queue import WorkQueue
from tests.unit.controller.watched_server import discovery, kubeconfig_of

SPEC_CHANGES = 3
"""Changes of each spec, one after the other."""
VARIANTS = ("events and a queue", "changes", "changes, no-op diff base")


class Server:
    """Models with lists, watches and merge patches. writes: by who wrote what."""

    def __init__(self, models: int) -> None:
        self.objects = {f"m{n}": _model(f"m{n}") for n in range(models)}
        self.writes: Counter[str] = Counter()
        self._version = 1
        self._watches: list[asyncio.Queue[dict[str, Any]]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if "speculativemodels" not in parts:
            return web.json_response(discovery(request.path))
        if request.method == "PATCH":
            return await self._patch(request, parts)
        if "watch" not in request.query:
            items = list(self.objects.values())
            return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})
        return await self._watch(request)

    async def _patch(self, request: web.Request, parts: list[str]) -> web.Response:
        status = parts[-1] == "status"
        body, name = await request.json(), parts[-2] if status else parts[-1]
        self.writes["status" if status and "observedGeneration" in body.get("status", {}) else "kopf"] += 1
        self._store(_merged(self.objects[name], body))
        return web.json_response(self.objects[name])

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._watches.append(queue)
        while True:
            await response.write(
                json.dumps({"type": "MODIFIED", "object": await queue.get()}).encode() + b"\n"
            )

    def change_specs(self, step: int) -> None:
        """A user changes each model."""
        for raw in list(self.objects.values()):
            generation = raw["metadata"]["generation"] + 1
            self._store(_merged(raw, {"metadata": {"generation": generation}, "spec": {"replicas": step}}))

    def _store(self, raw: dict[str, Any]) -> None:
        self._version += 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        self.objects[raw["metadata"]["name"]] = raw
        for queue in self._watches:
            queue.put_nowait(raw)

    async def until_reconciled(self) -> None:
        """Wait until each status is about the present spec, and kopf has been silent for four seconds."""
        async with asyncio.timeout(300):
            while not all(_reconciled(raw) for raw in self.objects.values()):
                await asyncio.sleep(0.05)
            before = -1
            while self.writes.total() != before:
                before = self.writes.total()
                await asyncio.sleep(4.0)


def _model(name: str) -> dict[str, Any]:
    return {
        "apiVersion": MODELS.api_version,
        "kind": MODELS.kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
        },
        "spec": {
            "model": {"uri": "hf://org/model"},
            "replicas": 0,
            "engine": {"args": {f"flag-{n}": n for n in range(20)}},
        },
    }


def _reconciled(raw: Mapping[str, Any]) -> bool:
    return bool(raw.get("status", {}).get("observedGeneration") == raw["metadata"]["generation"])


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    merged = {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return {key: value for key, value in merged.items() if value is not None}


class Operator:
    """Writes the generation into the status. calls: of handlers."""

    def __init__(self, url: str) -> None:
        self.url, self.calls = url, 0
        self.session: aiohttp.ClientSession | None = None
        self.known: dict[str, Mapping[str, Any]] = {}

    async def reconcile(self, name: str) -> float | None:
        raw = self.known[name]
        if not _reconciled(raw):
            self.session = self.session or aiohttp.ClientSession()
            body = {"status": {"observedGeneration": raw["metadata"]["generation"]}}
            url = self.url + MODELS.path("default", name, "status")
            async with self.session.patch(url, json=body) as response:
                await response.read()
        return None


def run_operator(variant: str, url: str) -> None:
    """The operator process: it runs until its standard input closes, and prints CPU seconds and calls."""
    operator, registry = Operator(url), kopf.OperatorRegistry()
    queue = WorkQueue[str](operator.reconcile, concurrency=8)
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    kind: dict[str, Any] = {"group": MODELS.group, "version": MODELS.version, "plural": MODELS.plural}
    kind["registry"] = registry

    async def on_event(event: Mapping[str, Any], name: str, **_: Any) -> None:
        operator.calls += 1
        operator.known[name] = event["object"]
        queue.add(name)

    async def on_change(body: Mapping[str, Any], name: str, **_: Any) -> None:
        operator.calls += 1
        operator.known[name] = body
        await operator.reconcile(name)

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    if variant == VARIANTS[0]:
        configure(settings)  # type: ignore[call-arg]
        kopf.on.event(**kind)(on_event)
    else:
        for decorate in (kopf.on.create, kopf.on.update, kopf.on.resume):
            decorate(**kind)(on_change)
        if variant == VARIANTS[2]:
            settings.persistence.diffbase_storage = NothingKept()

    async def work() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        loop.run_in_executor(None, lambda: (sys.stdin.read(), loop.call_soon_threadsafe(done.set)))
        before = resource.getrusage(resource.RUSAGE_SELF)
        tasks = [asyncio.create_task(queue.run())]
        tasks += await kopf.spawn_tasks(
            registry=registry, settings=settings, standalone=True, clusterwide=True
        )
        await done.wait()
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        sys.stdout.write(json.dumps({"cpu": cpu, "calls": operator.calls}))
        sys.stdout.flush()
        os._exit(0)

    logging.getLogger("kopf").setLevel(logging.ERROR)
    asyncio.run(work())


async def measure(variant: str, models: int, folder: Path) -> dict[str, float]:
    """One run: the first list, then `SPEC_CHANGES` changes of each spec. Values are for each model."""
    server = Server(models)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = "http://{}:{}".format(*runner.addresses[0][:2])
    (folder / "kubeconfig").write_text(kubeconfig_of(url), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.kopf_handlers", "--operator", variant, url),
        env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig")},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await server.until_reconciled()
        for step in range(1, SPEC_CHANGES + 1):
            server.change_specs(step)
            await server.until_reconciled()
        printed, _ = await process.communicate(b"")
    finally:
        if process.returncode is None:
            process.kill()
        await runner.cleanup()
    found = json.loads(printed)
    return {
        "writes of status": server.writes["status"] / models,
        "writes of kopf": server.writes["kopf"] / models,
        "handler calls": found["calls"] / models,
        "CPU ms": 1000 * found["cpu"] / models,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--operator", nargs=2, metavar=("VARIANT", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.operator:
        run_operator(*options.operator)
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.runs):
            for variant in VARIANTS:
                found[variant].append(asyncio.run(measure(variant, options.models, Path(folder))))
                print(f"# {variant}: {found[variant][-1]}", file=sys.stderr)
    columns = list(found[VARIANTS[0]][0])
    print(f"| handlers | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for variant, runs in found.items():
        cells = [
            f"{statistics.median(each[name] for each in runs):.1f} "
            f"({min(each[name] for each in runs):.1f} to {max(each[name] for each in runs):.1f})"
            for name in columns
        ]
        print(f"| {variant} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
