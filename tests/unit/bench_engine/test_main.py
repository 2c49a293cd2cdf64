"""The command line: what it refuses before anything is touched, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from examples.kit.records import Stretch
from tests.bench.engine import __main__ as command
from tests.bench.engine.plan import NONE, STATIC
from tests.bench.engine.records import Slice, UnitRecord
from tests.bench.engine.result import Conditions, Result
from tests.unit.bench_engine.factories import conditions, counts


def driven(run: command.Run) -> list[UnitRecord]:
    """Two rounds of every static table, the plain engine, and one trace of Outrider; all at one speed."""
    found = []
    for load in dict.fromkeys(phase.load for phase in run.settings.trace):
        for arm in (STATIC, NONE):
            for number in range(2):
                held = (NONE,) if arm == NONE else tuple(map(str, run.settings.candidates))
                seconds = 4 * len(held)
                found.append(
                    UnitRecord(
                        key=f"{arm} {number} {load.name}",
                        arm=arm,
                        number=number,
                        stretches=(stretch(load.asked, load.streams, seconds),),
                        slices=tuple(
                            Slice(arm=name, since=4.0 * place, until=4.0 * place + 4.0)
                            for place, name in enumerate(held)
                        ),
                        late=0.001,
                    )
                )
    phases = tuple(stretch(one.load.asked, one.load.streams, 34) for one in run.settings.trace)
    return [*found, UnitRecord(key="outrider 1", arm="outrider", number=0, stretches=phases, late=0.002)]


def stretch(asked: str, streams: int, seconds: int) -> Stretch:
    return Stretch(streams=streams, prompts=asked, counts=counts([1000] * seconds))


def test_a_run_on_stand_ins_leaves_its_figures_beside_the_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bench(_: object, run: command.Run, *__: object) -> tuple[Conditions, list[UnitRecord]]:
        return conditions(), driven(run)

    monkeypatch.setattr(command, "_bench", bench)
    arguments = ["--engine", "twin:h100_8b", "--quick", "--output", str(tmp_path)]
    found = CliRunner().invoke(command.app, arguments)
    assert found.exit_code == 0, found.output
    folder = tmp_path / "h100_8b-x1"
    told = Result.model_validate_json((folder / "result.json").read_text())
    assert {one.arm for one in told.predictions} == {one.arm for one in told.figures.arms}
    assert "| Outrider | 1000 [1000, 1000] |" in (folder / "table.md").read_text()
    assert (folder / "report.png").exists()
