from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from outrider.cli.main import app
from outrider.cli.options import flag, variable
from outrider.cli.settings_reference import FILE_NAME, render
from outrider.controller.settings import Settings

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def refused(**values: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Settings(**values)
    return str(caught.value)


def test_works_without_any_setting() -> None:
    assert Settings().tuning_interval_seconds == 10


def test_reads_images_as_pairs() -> None:
    settings = Settings(engine_images=["0.32.0=engine:a", "0.33.0=host:5000/engine:b"])  # type: ignore[arg-type]

    assert settings.engine_images == {"0.32.0": "engine:a", "0.33.0": "host:5000/engine:b"}


def test_refuses_an_image_without_a_version() -> None:
    assert "'engine:a' is not of the form version=image" in refused(engine_images=["engine:a"])


def test_refuses_a_label_of_the_operators_pods_without_a_value() -> None:
    assert "'app' is not of the form name=value" in refused(control_peers=["app"])


def test_refuses_a_pull_secret_that_cannot_be_a_secrets_name() -> None:
    assert "engine_image_pull_secrets" in refused(engine_image_pull_secrets=["Not a name"])


def test_refuses_a_lease_that_runs_out_between_two_ticks() -> None:
    assert "push_lease_seconds" in refused(push_lease_seconds=15, tuning_interval_seconds=10)


def test_refuses_a_url_without_scheme() -> None:
    assert "prometheus_url" in refused(prometheus_url="prometheus:9090")


@pytest.mark.parametrize("url", ["collector:4318", "https://user:password@collector/v1/traces"])
def test_refuses_a_collector_without_scheme_or_with_a_login_in_its_url(url: str) -> None:
    assert "traces_url" in refused(traces_url=url)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_a_flag_and_a_variable(name: str) -> None:
    help_text = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "240"}).output

    assert flag(name) in help_text
    assert variable(name) in help_text


def test_a_refused_value_ends_the_command_with_its_name() -> None:
    result = CliRunner().invoke(app, ["run"], env={"OUTRIDER_TUNING_INTERVAL_SECONDS": "0", "COLUMNS": "240"})

    assert result.exit_code == 2
    assert "--tuning-interval-seconds" in result.output


def test_the_reference_is_current() -> None:
    assert (DOCS / FILE_NAME).read_text(encoding="utf-8") == render(), (
        "run `python -m outrider.cli.settings_reference --write docs/reference`"
    )
