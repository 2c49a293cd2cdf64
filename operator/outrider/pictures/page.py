"""A page of results: one file that loads nothing, light or dark as its reader has it, fit for a phone."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

STYLE = """
:root{color-scheme:light dark;--ink:#1c2026;--faint:#5b6470;--page:#fff;--card:#f3f5f7;--edge:#d5dae0}
@media (prefers-color-scheme:dark){:root{--ink:#dde1e7;--faint:#9aa4b0;--page:#16181d;--card:#21252c;
--edge:#3a404a}}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:46rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.4rem 0}
.faint{color:var(--faint)}.verdict{font-size:1.15rem;padding:.8rem 1rem;background:var(--card);
border-left:5px solid var(--mark);border-radius:4px;margin:1rem 0}
.simulated{padding:.6rem 1rem;border:2px dashed #e69f00;border-radius:4px;margin:1rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.8rem}
.card{background:var(--card);border-radius:4px;padding:.7rem 1rem}.card b{display:block;font-size:1.35rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--edge);text-align:right;white-space:nowrap}
th:first-child,td:first-child,td.words{text-align:left}td.words{white-space:normal;min-width:14rem}
svg{display:block;width:100%;min-width:27rem}
"""


def document(title: str, body: str) -> str:
    """title: plain text. body: HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def wide(part: str) -> str:
    """What is wider than a narrow window scrolls by itself."""
    return f'<div class="wide">{part}</div>'


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], *, words: str = "") -> str:
    """Of plain text. words: the heading of a column of sentences, which are wrapped."""
    named = list(heads)
    head = "".join(f"<th>{escape(each)}</th>" for each in named)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="words">{escape(cell)}</td>' if name == words else f"<td>{escape(cell)}</td>"
            for name, cell in zip(named, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return wide(f"<table><tr>{head}</tr>{body}</table>")
