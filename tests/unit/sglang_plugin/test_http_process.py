"""How the control API gets into SGLang's HTTP server: late, and in its process alone."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from outrider_sglang.sglang_adapter.http_process import attach_to_http_server
from tests.unit.sglang_plugin.fake_sglang import HookRegistry, server_args

SERVER = "sglang.srt.entrypoints.http_server"


@pytest.fixture
def served() -> list[Any]:
    """The application and the engines that the control API was added to."""
    calls: list[Any] = []
    attach_to_http_server(lambda app, engines: calls.append((app, engines.model_name())))
    HookRegistry.apply_hooks()
    return calls


def import_server(monkeypatch: pytest.MonkeyPatch, ran: list[Any]) -> Any:
    module = ModuleType(SERVER)
    vars(module)["app"] = "the application"
    vars(module)["_setup_and_run_http_server"] = lambda *args: ran.append(args)
    monkeypatch.setitem(sys.modules, "sglang.srt.entrypoints", ModuleType("sglang.srt.entrypoints"))
    monkeypatch.setitem(sys.modules, SERVER, module)
    vars(sys.modules["sglang.srt.entrypoints"])["http_server"] = module
    monkeypatch.setattr(
        sys.modules["sglang.srt"], "entrypoints", sys.modules["sglang.srt.entrypoints"], raising=False
    )
    return module


def allocate_ports() -> object:
    ports: Any = sys.modules["sglang.srt.server_args"]
    return ports.PortArgs.init_new()


class Manager:
    served_model_name = "tiny"


def test_a_process_without_the_server_only_allocates_ports(served: list[Any]) -> None:
    assert allocate_ports() == "ports"
    assert served == []


def test_the_server_gets_the_control_api_before_it_runs(
    monkeypatch: pytest.MonkeyPatch, served: list[Any]
) -> None:
    ran: list[Any] = []
    server, arguments = import_server(monkeypatch, ran), server_args()
    assert allocate_ports() == "ports"
    assert allocate_ports() == "ports", "a second allocation hooks nothing twice"
    manager = Manager()
    server._setup_and_run_http_server(arguments, manager, "templates")
    assert served == [("the application", "tiny")]
    assert ran == [(arguments, manager, "templates")]


def test_a_server_of_several_processes_runs_without_the_control_api(
    monkeypatch: pytest.MonkeyPatch, served: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[Any] = []
    server = import_server(monkeypatch, ran)
    allocate_ports()
    server._setup_and_run_http_server(server_args(tokenizer_worker_num=2), Manager())
    assert (served, len(ran)) == ([], 1)
    assert "leave out --tokenizer-worker-num" in caplog.text


def test_a_fault_of_the_control_api_costs_the_server_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def serve(app: object, engines: object) -> None:  # noqa: ARG001
        raise RuntimeError("no room")

    ran: list[Any] = []
    server = import_server(monkeypatch, ran)
    attach_to_http_server(serve)
    HookRegistry.apply_hooks()
    allocate_ports()
    server._setup_and_run_http_server(server_args(), Manager())
    assert len(ran) == 1
    assert "no control API" in caplog.text


def test_loading_the_plugin_imports_neither_prometheus_nor_fastapi() -> None:
    """SGLang sets the folder of Prometheus' files before the first import."""
    modules = "scheduler_process, http_process"
    code = f"import sys; from outrider_sglang.sglang_adapter import {modules}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert {"prometheus_client", "fastapi", "sglang", "torch"}.isdisjoint(found.split())
