"""What an engine core takes from its environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

from outrider_engine.control.parsing import parse_schedule
from outrider_protocol.control_api import Reason, Refusal
from outrider_protocol.environment import STATIC_SCHEDULE_VARIABLE
from outrider_protocol.schedule import Schedule

MEASURE_VARIABLE = "OUTRIDER_MEASURE"


def measures_at_start() -> bool:
    """Whether steps are counted from the start."""
    return os.environ.get(MEASURE_VARIABLE) != "0"


def read_static_schedule() -> Schedule | None:
    """The static schedule of the configured file; None when no file is configured.

    Raises:
        OSError: the file cannot be read.
        Refusal: it holds no schedule.
    """
    path = os.environ.get(STATIC_SCHEDULE_VARIABLE)
    if not path:
        return None
    try:
        return parse_schedule(json.loads(Path(path).read_bytes()))
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{path} is not JSON") from error
