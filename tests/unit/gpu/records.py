"""A record of a check, as a run leaves it."""

from __future__ import annotations

from pathlib import Path

from tests.gpu.record import PartRecord, Record, Status, table
from tests.gpu.verdicts import Check, Verdict

ABOUT: dict[str, object] = {
    "command": "python -m tests.gpu",
    "commit": "abc1234",
    "date": "2026-12-01T10:00:00+00:00",
    "engine": "gpu",
    "evidence": "GPU",
    "device": {"name": "NVIDIA H100 80GB HBM3, 81559 MiB, 570.86", "vllm": "0.33.0"},
    "minutes": 20.0,
    "models": {"target": "/made/target", "drafter": "/made/head", "made": True},
}
COST = {"pairs": 12, "interval_95_percent": [-0.2, 0.7], "median_percent": 0.25}


def a_record(file: Path) -> Record:
    """One part done, one cut off, one that this machine cannot show."""
    done = PartRecord(
        Status.DONE,
        seconds=61.5,
        checks=[Check("live against static, 8 streams", 1.0, Verdict.MET, COST)],
        figures={"tokens_per_second": {"live": {"1": 100.0, "8": 700.0}, "static": {"1": 101.0, "8": 705.0}}},
    )
    parts = {
        "eagle3, static": done,
        "eagle3, k0": PartRecord(Status.CUT_OFF),
        "eagle3, runner": PartRecord(Status.NOT_HERE, "the operator launches <eagle3> on V1 here"),
    }
    places = [(1, 0, 100.0, None), (1, 3, 180.0, 1.5), (8, 0, 700.0, None), (8, 3, 900.0, 1.4)]
    made = table("h100_eagle3", places, unspeculated={1: 103.0, 8: 720.0}, source="a command")
    return Record(file, dict(ABOUT), parts, tables=[made])
