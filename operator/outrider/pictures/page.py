"""A page of results: one file that loads nothing, light or dark as its reader has it, fit for a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape

from outrider.pictures.charts import BROAD, NARROW

STYLE = """
:root{color-scheme:light dark;--ink:#1c2026;--faint:#5b6470;--page:#fff;--card:#f3f5f7;--edge:#d5dae0}
@media (prefers-color-scheme:dark){:root{--ink:#dde1e7;--faint:#9aa4b0;--page:#16181d;--card:#21252c;
--edge:#3a404a}}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:57rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.4rem 0}
.faint{color:var(--faint)}.verdict{font-size:1.15rem;padding:.8rem 1rem;background:var(--card);
border-left:5px solid var(--mark);border-radius:4px;margin:1rem 0}.verdict b{white-space:nowrap}
.simulated h2{margin-top:.5rem}
.simulated{padding:.6rem 1rem;border:2px dashed #e69f00;border-radius:4px;margin:1rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.8rem}
.card{background:var(--card);border-radius:4px;padding:.7rem 1rem}.card b{display:block;font-size:1.35rem}
.wide{overflow-x:auto;background:
linear-gradient(to left,var(--page) 50%,transparent) right/3rem 100% no-repeat local,
linear-gradient(to left,var(--edge),transparent) right/1.2rem 100% no-repeat}
table{border-spacing:0;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--edge);font-size:.9rem;
text-align:left;white-space:nowrap}
th{white-space:normal;vertical-align:bottom}
th:first-child,td:first-child{position:sticky;left:0;background:var(--page)}
.figure{text-align:right}td.words{white-space:normal;min-width:12rem}
svg{display:block;width:100%}.broad,.narrow{margin:.5rem 0 1rem}.narrow{display:none;max-width:28rem}
@media (max-width:40rem){.broad{display:none}.narrow{display:block}
th,td{padding:.3rem .45rem}}
"""

_FIGURE = r"[-+]?\d[\d., %\[\]+-]*|-|"
"""A number, with its interval or none, and what stands where there is none."""


def document(title: str, body: str) -> str:
    """title: plain text. body: HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def picture(chart: Callable[[int], str]) -> str:
    """A chart in two widths, for a page and for a phone; the reader sees the one that fits.

    chart: draws the chart in a width in pixels.
    """
    return f'<div class="broad">{chart(BROAD)}</div><div class="narrow">{chart(NARROW)}</div>'


def table(heads: Iterable[str], rows: Iterable[Sequence[str]], *, words: str = "") -> str:
    """A table of plain text, which scrolls where it is wider than the window.

    words: the heading of a column of sentences, which are wrapped.
    """
    named, filled = list(heads), list(rows)
    kinds = [
        "words" if name == words else _kind(row[column] for row in filled)
        for column, name in enumerate(named)
    ]
    head = "".join(map(_cell("th"), kinds, named))
    body = "".join(f"<tr>{''.join(map(_cell('td'), kinds, row))}</tr>" for row in filled)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _kind(cells: Iterable[str]) -> str:
    """The alignment of a column: figures by their last digits, text by its first letters."""
    return "figure" if all(re.fullmatch(_FIGURE, cell) for cell in cells) else ""


def _cell(tag: str) -> Callable[[str, str], str]:
    def drawn(kind: str, text: str) -> str:
        style = f' class="{kind}"' if kind else ""
        return f"<{tag}{style}>{escape(text)}</{tag}>"

    return drawn
