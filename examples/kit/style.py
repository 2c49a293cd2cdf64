"""The look of every picture."""

from __future__ import annotations

from typing import Any

# Colour-blind readers can distinguish Okabe and Ito's colours, also in grey.
OUTRIDER = "#0072B2"
ZERO = "#E69F00"
LARGEST = "#CC79A7"
GREY = "#666666"
LINE = "#BBBBBB"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "figure.dpi": 150,
}
