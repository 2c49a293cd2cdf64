"""What all commands have in common."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from outrider import __version__
from outrider.cli import main
from outrider.cli.common import cluster
from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError, ExitCode
from outrider.cli.help_pages import HELP_PAGES
from outrider.cli.main import app
from outrider.cluster import client
from tests.unit.cli.kubernetes import Kubernetes, a_kubeconfig, a_list, serving
from tests.unit.controller.factories import a_raw_model

ROOT = Path(__file__).parents[3]
MODELS = "/apis/outrider.dev/v1alpha1/namespaces/default/speculativemodels"
GUIDELLM = ["--guidellm", "true"]
PLAIN = {"run", "crd", "import", "inject", "render", "version"}
"""Commands whose output is not for people in the first place."""
OF_A_CLUSTER = ["explain", "status", "doctor", "bench", "sweep", "verify"]


def commands() -> Iterator[tuple[str, TyperCommand]]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        assert isinstance(command, TyperCommand)
        yield name, command


NAMES = [name for name, _ in commands()]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLAIN])
def test_every_command_speaks_json(name: str) -> None:
    (command,) = (command for known, command in commands() if known == name)
    assert {"-o", "--output", "--json"} <= {
        option for parameter in command.params for option in parameter.opts
    }


@pytest.mark.parametrize("name", OF_A_CLUSTER)
def test_every_command_of_a_cluster_takes_kubectls_own_options(name: str) -> None:
    (command,) = (command for known, command in commands() if known == name)
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"-n", "--namespace", "--context", "--kubeconfig"} <= options


@pytest.mark.parametrize("name", NAMES)
def test_every_help_fits_eighty_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80


def test_every_help_ends_with_examples_and_the_page() -> None:
    assert set(HELP_PAGES) == set(NAMES)
    for name, page in HELP_PAGES.items():
        said = CliRunner().invoke(app, [name, "--help"]).output
        assert all(typed in said for typed in page.examples.values())
        assert said.rstrip().endswith(f"Documentation: {page.page}")
        assert (ROOT / "docs" / f"{page.page}.md").is_file()


@pytest.mark.parametrize("typed", [typed for page in HELP_PAGES.values() for typed in page.examples.values()])
def test_an_example_can_be_typed(typed: str) -> None:
    part = next(part for part in re.split("[|>]", typed) if part.split()[0] == "outrider")
    _, name, *words = part.split()
    (command,) = (command for known, command in commands() if known == name)
    command.make_context(name, words)


def test_every_option_has_a_help_that_reads_alone() -> None:
    fragments = ("Of ", "By ", "Such as ", "As ", "With ")
    helps = [
        (name, parameter.name, getattr(parameter, "help", None))
        for name, command in commands()
        for parameter in command.params
        if parameter.name != "help"
    ]
    assert [each for each in helps if not each[2] or each[2].startswith(fragments)] == []


def test_kubectl_finds_the_same_program_as_its_plugin() -> None:
    scripts = tomllib.loads((ROOT / "operator" / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-speculative"] == scripts["outrider"]


@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_version_is_one_line_on_standard_output(word: str) -> None:
    result = CliRunner().invoke(app, [word])
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{__version__}\n", "")


def test_the_page_of_exit_codes_has_them_all() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert {str(int(code)) for code in ExitCode} <= set(rows)


@pytest.mark.parametrize("name", OF_A_CLUSTER)
def test_without_a_cluster_it_is_one_line_and_exit_code_2(name: str, tmp_path: Path) -> None:
    (command,) = (command for known, command in commands() if known == name)
    words = ["m"] if any(parameter.name == "name" for parameter in command.params) else []
    extra = {
        "bench": [*GUIDELLM, "--yes"],
        "sweep": [*GUIDELLM, "--yes", "--save", str(tmp_path / "table.json")],
        "verify": ["--yes"],
    }.get(name, [])
    file = tmp_path / "none"
    result = CliRunner().invoke(app, [name, *words, *extra], env={"KUBECONFIG": str(file)})
    told = (
        f"outrider {name}: no cluster to ask: there is no file {file}. Set KUBECONFIG, or use --kubeconfig.\n"
    )
    assert (result.exit_code, result.output) == (2, told)


@pytest.mark.parametrize("name", ["bench", "sweep", "verify"])
def test_load_on_a_live_model_needs_consent(name: str, tmp_path: Path) -> None:
    extra = ["--save", str(tmp_path / "table.json")] if name == "sweep" else []
    result = CliRunner().invoke(app, [name, "m", *extra])
    assert (result.exit_code, result.stdout) == (ExitCode.CANNOT, "")
    assert result.stderr.startswith(f"outrider {name}: This sends ")
    assert result.stderr.endswith("overrides its schedule meanwhile. Agree to that with --yes.\n")


def test_without_a_command_it_is_help_and_exit_code_0() -> None:
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: ")


def test_in_a_pod_no_kubeconfig_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    monkeypatch.setattr(client, "_SERVICE_ACCOUNT_TOKEN", token)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("POD_NAMESPACE", "outrider-system")
    monkeypatch.setattr(cluster, "list_kube_config_contexts", None)
    assert cluster._default_namespace(ClusterChoice()) == "outrider-system"


def two_contexts(folder: Path, url: str) -> Path:
    """A kubeconfig whose current context is not the one that leads to the cluster."""
    found = a_kubeconfig(url, namespace="default")
    other = {"name": "gone", "context": {"cluster": "none", "user": "u"}}
    nowhere = {"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}
    found |= {"contexts": [*found["contexts"], other], "current-context": "gone"}
    file = folder / "two-contexts"
    file.write_text(json.dumps(found | {"clusters": [*found["clusters"], nowhere]}), encoding="utf-8")
    return file


def test_context_and_kubeconfig_choose_the_cluster(tmp_path: Path) -> None:
    with serving(Kubernetes({MODELS: a_list(a_raw_model("qwen3"))}), tmp_path) as environment:
        url = json.loads(Path(environment["KUBECONFIG"]).read_text())["clusters"][0]["cluster"]["server"]
        words = ["--kubeconfig", str(two_contexts(tmp_path, url)), "--context", "x", "-o", "yaml"]
        result = CliRunner().invoke(app, ["status", *words], env={"KUBECONFIG": "/none"})
    assert yaml.safe_load(result.stdout)["models"][0]["name"] == "qwen3"


def test_a_context_that_does_not_exist_is_answered_with_those_that_do(tmp_path: Path) -> None:
    file = two_contexts(tmp_path, "http://127.0.0.1:1")
    result = CliRunner().invoke(app, ["status", "--kubeconfig", str(file), "--context", "prod"])
    assert result.output == "outrider status: the kubeconfig has no context prod. Use one of: gone, x.\n"
    assert result.exit_code == ExitCode.CANNOT


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plan", ("--model", "Qwen3-8B", "--gpu", "none")),
        ("plan", ("--model", "Qwen3-8B", "--gpu", "H100", "--streams", "0")),
        ("render", ("no/such/file.yaml",)),
        ("simulate", ("--tables", "no/such/file.json")),
        ("simulate", ("--tables", "x", "--load", "many")),
        ("explain", ("m", "--at", "noon")),
    ],
)
def test_bad_input_is_one_line_that_begins_alike_everywhere(name: str, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [name, *words])
    assert (result.exit_code, result.stdout) == (ExitCode.CANNOT, "")
    assert result.stderr.startswith(f"outrider {name}: ")
    assert result.stderr.count("\n") == 1


def completed(tmp_path: Path, cluster: Kubernetes, typed: str) -> list[str]:
    """What a shell would offer."""
    with serving(cluster, tmp_path) as environment:
        result = CliRunner().invoke(
            app,
            prog_name="outrider",
            env={
                **environment,
                "_OUTRIDER_COMPLETE": "complete_bash",
                "COMP_WORDS": typed,
                "COMP_CWORD": str(len(typed.split(" ")) - 1),
            },
        )
    return result.output.split()


def test_a_shell_completes_the_names_of_models(tmp_path: Path) -> None:
    cluster = Kubernetes({MODELS: a_list(a_raw_model("qwen3"), a_raw_model("llama"))})
    assert completed(tmp_path, cluster, "outrider status qw") == ["qwen3"]


def test_a_shell_is_not_disturbed_where_the_cluster_cannot_be_asked(tmp_path: Path) -> None:
    assert completed(tmp_path, Kubernetes(), "outrider status qw") == []


def test_a_command_whose_extra_is_not_installed_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "entry_points", lambda **_: ())
    simulate = main.added_command("simulate", extra="simulate")

    with pytest.raises(CommandError, match=r"outrider\[simulate\]"):
        simulate(["--tables", "tables.json"])


def test_no_command_for_an_extra_removes_the_other_extra() -> None:
    """uv installs exactly the extras that it is given."""
    root = Path(__file__).parents[3]
    pages = [*(root / "docs").rglob("*.md"), *(root / "operator" / "outrider").rglob("*.py")]
    commands = {
        found for page in pages for found in re.findall(r"'\./operator\[[a-z,]+\]'", page.read_text("utf-8"))
    }
    assert commands == {"'./operator[simulate,report]'"}
