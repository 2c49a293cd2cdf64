"""The keys of a speculative configuration that `outrider import` carries are those that vLLM takes."""

from __future__ import annotations

import json
import os

import pytest

from outrider.importing.speculative_keys import KNOWN_KEYS
from outrider_protocol.releases import CPU_RELEASE, NEWEST_VERSION, parse_version
from tests.contract import engine_process

pytestmark = pytest.mark.contract

_KEYS = """
import dataclasses, json
from vllm.config import SpeculativeConfig
print(json.dumps([field.name for field in dataclasses.fields(SpeculativeConfig) if field.init]))
"""


def test_every_key_of_the_installed_vllm_is_known() -> None:
    ended = engine_process.run(("-c", _KEYS), os.environ, timeout=600)
    assert ended.returncode == 0, ended.log
    keys = set(json.loads(ended.log.splitlines()[-1]))
    assert keys - KNOWN_KEYS == set()
    if parse_version(CPU_RELEASE) == NEWEST_VERSION:
        assert keys == KNOWN_KEYS
