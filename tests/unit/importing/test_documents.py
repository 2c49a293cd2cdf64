"""The text of a manifest is read as Kubernetes reads it, and not as Python would."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.importing.kit import a_deployment, an_engine, spec_of


@pytest.mark.parametrize("written", ["2024-01-01", "2024-01-01T10:00:00Z", "12:30", "!!timestamp 2024-01-01"])
def test_a_date_or_a_time_without_quotes_is_a_text(written: str) -> None:
    document = a_deployment(an_engine("a/b", "--revision", "WHEN"))
    document["spec"]["template"]["spec"]["nodeSelector"] = {"since": "WHEN"}
    spec = spec_of(yaml.safe_dump(document).replace("WHEN", written))

    text = written.removeprefix("!!timestamp ")
    assert spec["podTemplate"]["spec"]["nodeSelector"] == {"since": text}
    assert spec["model"]["revision"] == text


def test_a_number_stays_a_number() -> None:
    document = a_deployment(an_engine("a/b", "--seed", "NUMBER"))
    assert spec_of(yaml.safe_dump(document).replace("NUMBER", "12"))["engine"]["args"] == {"seed": 12}
