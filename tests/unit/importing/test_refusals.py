"""Bad input: one clear line for each, and never a secret in it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from outrider.cli.main import app
from outrider.foreign.readers import IMPORTED


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["import", *words], input=text)


def of(document: object) -> Result:
    return run("-f", "-", text=document if isinstance(document, str) else yaml.safe_dump(document))


def a_deployment(*containers: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }


def vllm(*args: str, **more: object) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": 1}}
    return {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.33.0",
        "args": list(args),
        "resources": resources,
    } | more


def shell(script: str, **more: object) -> dict[str, Any]:
    return vllm(script, command=["sh", "-c"], **more)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}, "does not import this kind"),
        ("replicas: {{ .Values.replicas }}\n", "template expressions"),
        ("{{- if .Values.on }}\nkind: Deployment\n{{- end }}\n", "helm template"),
        ("kind: [", "is not YAML"),
        ("", "holds no object"),
        ("just words", "holds no object"),
        ("x: " + "y" * IMPORTED.most_bytes, "too large"),
        (a_deployment(vllm()), "names no model"),
        (a_deployment(vllm("--model", "gpt2")), "write organisation/name"),
        (a_deployment(vllm("--model", "gs://bucket/model")), "Outrider reads hf://"),
        (a_deployment(vllm("--model", "$(MODEL)")), "whose value the source does not have"),
        (a_deployment(vllm("a/b", name="one"), vllm("a/b", name="two")), "name one with --container"),
        (a_deployment(shell("vllm serve $MODEL")), "the variable MODEL"),
        (a_deployment(shell("vllm serve a/b | tee log")), "uses '|'"),
        (a_deployment(shell("vllm serve `cat name`")), "runs a command inside another one"),
        (a_deployment(shell("vllm serve $(cat name)")), "runs a command inside another one"),
        (a_deployment(shell("if true; then vllm serve a/b; fi")), "uses 'if'"),
        (a_deployment(shell("vllm serve 'a/b")), "a quote that does not end"),
        (a_deployment(shell("sleep 1")), "runs no engine"),
        (a_deployment(shell("vllm serve a/b & vllm serve c/d")), "uses '&'"),
        (a_deployment(vllm(command=["bash", "/start.sh"])), "runs a script file"),
        (
            a_deployment(vllm(command=["python3", "-m", "vllm.entrypoints.api_server"])),
            "demonstration server",
        ),
        (a_deployment(vllm("a/b", "--speculative-config", "many")), "is not a JSON object"),
        (
            {
                "apiVersion": "kubeai.org/v1",
                "kind": "Model",
                "spec": {"engine": "OLlama", "url": "ollama://x"},
            },
            "its engine is OLlama",
        ),
        (
            {
                "apiVersion": "serving.kserve.io/v1beta1",
                "kind": "InferenceService",
                "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}},
            },
            "its model format is sklearn",
        ),
        ({"servingEngineSpec": {"modelSpec": []}}, "has no engine"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_exit_code_2(document: object, says: str) -> None:
    result = of(document)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("outrider import: ")
    assert says in line


def test_an_alias_bomb_is_refused_by_its_counts() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, after in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{after}: &{after} [{','.join([f'*{before}'] * 10)}]")
    result = of("\n".join(lines))
    assert result.exit_code == 2
    assert "too large" in result.stderr


def test_aliases_of_a_manifest_are_followed() -> None:
    result = of(
        "x-labels: &labels {app: a}\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n"
        "  selector: {matchLabels: *labels}\n  template:\n    metadata: {labels: *labels}\n    spec:\n"
        "      containers: [{name: vllm, image: 'vllm/vllm-openai:v0.33.0', args: [a/b]}]\n"
    )
    assert result.exit_code == 0
    assert "hf://a/b" in result.stdout


KEYS_OF_OTHER_TYPES = {
    "on": "true",
    "yes": "true",
    "off": "false",
    "1": "1",
    "0x10": "16",
    "1.50": "1.5",
    "2026-01-02": "2026-01-02",
    "12:30": "12:30",
}


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("written", KEYS_OF_OTHER_TYPES)
def test_a_key_that_yaml_reads_as_another_type_is_the_text_that_kubernetes_makes_of_it(
    field: str, written: str
) -> None:
    deployment = a_deployment(vllm("--model", "org/model"))
    deployment["spec"]["template"]["metadata"][field] = {"KEY": "x"}
    result = of(yaml.safe_dump(deployment).replace("KEY:", f"{written}:"))

    assert result.exit_code == 0
    [model] = yaml.safe_load_all(result.stdout)
    assert model["spec"]["podTemplate"]["metadata"][field] == {KEYS_OF_OTHER_TYPES[written]: "x"}


@pytest.mark.parametrize("written", ["null", "~", ".inf", "1234567.5"])
def test_a_key_without_a_text_is_refused_with_its_line(written: str) -> None:
    result = of(f"kind: Deployment\nmetadata:\n  labels:\n    {written}: x\n")

    assert result.exit_code == 2
    assert "a key that Kubernetes does not read as text, in line 4" in result.output


def test_keys_that_are_the_same_to_python_stay_two() -> None:
    deployment = a_deployment(vllm("--model", "org/model"))
    deployment["spec"]["template"]["metadata"]["annotations"] = {"KEY": "x"}
    result = of(yaml.safe_dump(deployment).replace("KEY: x", "1: a\n        on: b"))

    [model] = yaml.safe_load_all(result.stdout)
    assert model["spec"]["podTemplate"]["metadata"]["annotations"] == {"1": "a", "true": "b"}


def test_a_chat_template_with_braces_is_no_template_of_a_chart() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"chat.jinja": "{{ bos }}\n{{- 'x' }}\n"}}
    result = of(yaml.safe_dump_all([config, a_deployment(vllm("a/b", "--chat-template={{ messages }}"))]))
    assert result.exit_code == 0
    assert "chat-template: '{{ messages }}'" in result.stdout


def test_what_runs_no_engine_is_named_and_does_not_fail() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    user_interface = a_deployment({"name": "ui", "image": "example.org/ui:1"})
    text = yaml.safe_dump_all([service, user_interface, a_deployment(vllm("a/b"))])
    result = of(text)
    assert result.exit_code == 0
    assert "Service s: it runs no engine" in result.stderr
    assert "no container runs vLLM" in result.stderr


def test_a_file_without_an_engine_fails() -> None:
    result = of({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}})
    assert result.exit_code == 2
    assert "the source runs no engine" in result.stderr


def test_one_engine_of_two_that_cannot_be_imported_fails_and_the_other_is_printed() -> None:
    result = of(yaml.safe_dump_all([a_deployment(vllm("a/b")), a_deployment(vllm())]))
    assert result.exit_code == 2
    assert "hf://a/b" in result.stdout


def test_a_container_can_be_chosen() -> None:
    document = yaml.safe_dump(a_deployment(vllm("a/b", name="one"), vllm("c/d", name="two")))
    assert "hf://c/d" in run("-f", "-", "--container", "two", text=document).stdout
    refused = run("-f", "-", "--container", "three", text=document)
    assert "there is no container three; its containers: one, two" in refused.stderr


def test_a_file_or_a_command_line_is_needed_and_not_both(tmp_path: Path) -> None:
    for words in ((), ("-f", "-", "--", "vllm", "serve", "a/b")):
        result = run(*words, text="")
        assert result.exit_code == 2
        assert "give a file with -f, or a command line after --" in result.stderr
    assert "it cannot be read: No such file" in run("-f", str(tmp_path / "none")).stderr


def test_a_command_line_in_quotes_is_read_as_a_shell_reads_it() -> None:
    result = run("--", "HF_HOME=/x vllm serve 'Qwen/Qwen3-8B' --max-num-seqs 4 --chat-template '{{ a }}'")
    assert result.exit_code == 0
    args = yaml.safe_load(result.stdout)["spec"]["engine"]["args"]
    assert args == {"max-num-seqs": 4, "chat-template": "{{ a }}"}


def test_kubernetes_replaces_nothing_in_a_command_line() -> None:
    result = run("--", "vllm", "serve", "a/b", "--chat-template", "$$x")
    assert yaml.safe_load(result.stdout)["spec"]["engine"]["args"] == {"chat-template": "$$x"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["vllm serve a/b | tee log"], "the command line uses '|', and Outrider reads simple commands only"),
        (["sleep", "1"], "the command line runs sleep, and not vllm serve"),
        (["sh", "start.sh"], "the command line runs a script file, which Outrider cannot read"),
        (["vllm serve $(hostname)"], "the command line runs a command inside another one"),
        (["vllm serve $MODEL"], "the command line uses the variable MODEL"),
        (
            ["python3", "-m", "vllm.entrypoints.api_server"],
            "the command line runs vllm.entrypoints.api_server",
        ),
    ],
)
def test_a_message_about_a_command_line_names_no_container(words: list[str], says: str) -> None:
    result = run("--", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert "container" not in result.stderr


@pytest.mark.parametrize("option", [("--keep-image",), ("--container", "vllm")])
def test_an_option_of_manifests_is_refused_for_a_command_line(option: tuple[str, ...]) -> None:
    result = run(*option, "--", "vllm", "serve", "a/b")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{option[0]} " in result.stderr
    assert "leave the option out, or name a manifest with -f" in result.stderr


def test_one_name_is_not_for_two_engines() -> None:
    text = yaml.safe_dump_all([a_deployment(vllm("a/b")), a_deployment(vllm("c/d"))])
    result = run("-f", "-", "--name", "x", text=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the source has 2 engines" in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve a/b --api-key s3cr3tvalue0",
        "vllm serve a/b --api-key=s3cr3tvalue0",
        "vllm serve a/b --hf-token s3cr3tvalue0",
        "env HF_TOKEN=s3cr3tvalue0 vllm serve a/b",
        "sh -c 'export HF_TOKEN=s3cr3tvalue0; vllm serve a/b'",
        "vllm serve a/b --otlp-traces-endpoint http://me:s3cr3tvalue0@collector",
        'vllm serve a/b --kv-transfer-config \'{"password": "s3cr3tvalue0"}\'',
        "vllm serve a/b token=s3cr3tvalue0",
    ],
)
def test_a_secret_in_a_command_line_is_named_and_never_printed(line: str) -> None:
    result = run("--", *shlex.split(line))
    assert "s3cr3tvalue0" not in result.output
    assert "not carried:" in result.stderr


def test_a_secret_beside_the_engine_is_never_printed() -> None:
    beside = {
        "name": "proxy",
        "image": "example.org/proxy:1",
        "args": ["--password=s3cr3tvalue0"],
        "env": [{"name": "ACCESS_KEY", "value": "s3cr3tvalue0"}],
    }
    result = of(a_deployment(vllm("a/b"), beside))
    assert result.exit_code == 0
    assert "s3cr3tvalue0" not in result.output
    assert "env ACCESS_KEY of container proxy" in result.stderr
