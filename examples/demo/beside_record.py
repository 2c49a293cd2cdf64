"""The last three rows of a run: its gains beside those of the published runs, as README has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.demo.phases import Arm
from examples.demo.report import TOO_FEW
from examples.demo.result import Result
from examples.demo.spread import Compared, compared, overall
from outrider.bench.result import percent
from outrider.bench.verdict import Interval

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
WIDEST = 0.3
"""Width of an interval, of a ratio, above which a run says too little. Whole runs have 0.02 to 0.2."""
HEADINGS = ("over all phases", "this run", "published runs", "do they agree?")


@dataclass(frozen=True, slots=True)
class Published:
    """Gains of the published runs, each with the smallest and the largest, as ratios.

    gains: by the words of README's rows.
    """

    name: str
    commit: str
    gains: Mapping[str, tuple[float, float]]

    @classmethod
    def newest(cls, folder: Path = FOLDER) -> Published:
        """Read the newest record of the demo.

        Raises:
            OSError: there is none. KeyError, ValueError: it has another form.
        """
        paths = sorted(folder.glob("*-demo.json"))
        if not paths:
            raise FileNotFoundError(f"no record of the demo in {folder}")
        found = json.loads(paths[-1].read_text(encoding="utf-8"))
        figures = found["figures"]
        ranges = {row: (float(figures[f"{row}, lowest"]), float(figures[f"{row}, highest"])) for row in ROWS}
        return cls(found["name"], found["commit"], ranges)


def rows(result: Result, published: Published) -> Iterator[tuple[str, ...]]:
    """Cells below `HEADINGS`."""
    found = compared(result)
    for row, gain_of in ROWS.items():
        gain, (lowest, highest) = gain_of(found), published.gains[row]
        known = published_cell(lowest, highest)
        yield row, TOO_FEW if gain is None else percent(gain), known, agreement(gain, lowest, highest)


def published_cell(lowest: float, highest: float) -> str:
    """The smallest and the largest of published gains, such as `+46 to +50 %`; one where they agree."""
    return f"{' to '.join(dict.fromkeys((_percent(lowest), _percent(highest))))} %"


def agreement(gain: Interval | None, lowest: float, highest: float) -> str:
    """Whether the interval of a gain meets the range of the published runs."""
    if gain is None:
        return "-"
    if gain.high - gain.low > WIDEST:
        return "it cannot say"
    if gain.high < lowest:
        return "no, it is below"
    return "no, it is above" if gain.low > highest else "yes"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f}"


def _lowest_phase(found: Sequence[Compared]) -> Interval | None:
    gains = [_over_better(phase) for phase in found]
    known = [gain for gain in gains if gain is not None]
    return min(known, key=lambda gain: gain.value) if known and len(known) == len(gains) else None


def _over_better(phase: Compared) -> Interval | None:
    """The gain over the better of both held K, which is the smaller of both gains."""
    both = [phase.gain(arm) for arm in (Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS)]
    known = [gain for gain in both if gain is not None]
    return min(known, key=lambda gain: gain.value) if len(known) == len(both) else None


ROWS: Mapping[str, Callable[[Sequence[Compared]], Interval | None]] = {
    "over K=0 held": lambda found: overall(found, Arm.NO_DRAFTS),
    "over the largest K held": lambda found: overall(found, Arm.LONGEST_DRAFTS),
    "over the better of both, in its lowest phase": _lowest_phase,
}
"""README's rows, and the figure of a run for each."""
