"""The frame of every page: one HTML file with its texts, tables, charts, and what draws them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from .. import __version__
from ..estimators import Interval
from ..notices import KINDS, Kind
from ..prior import shown_share
from .chart import Chart
from .text import script_json

MAX_LISTED = 100  # columns, files, options and codes that are listed one by one
HINT = (
    '<p class="hint">Hover over a chart to read its values. Pinch, or scroll with Ctrl held, to '
    "zoom; drag to pan; double-click to reset. “Values” lists the numbers behind a chart.</p>"
)


def whole_page(title: str, heading: str, sections: Iterable[str], drawn: Iterable[Chart]) -> str:
    """The file; title is plain text, heading and sections are HTML already."""
    data = "".join(
        f'<script type="application/json" id="data-{chart.name}">'
        f"{script_json({'spec': chart.spec(), 'columns': chart.columns})}</script>\n"
        for chart in drawn
    )
    scripts = [_asset("vega.js"), _asset("page.js")]
    # Only these two scripts may run, whatever a name in the data tries; Vega compiles expressions
    # of the specifications, which needs 'unsafe-eval'. Nothing may be fetched from anywhere.
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src 'unsafe-eval' {' '.join(map(_source_hash, scripts))}"
    )
    code = "".join(f"<script>{script}</script>\n" for script in scripts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="punoise {__version__}">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<a class="skip" href="#answer">Skip to the answer</a>
<header><h1>{heading}</h1></header>
<main>
{"".join(sections)}</main>
<footer><p>Made by punoise {__version__}.</p></footer>
<noscript><p class="notice">Charts need JavaScript; texts and tables do not.</p></noscript>
{data}{code}</body>
</html>
"""


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _source_hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def section(name: str, title: str, *parts: str) -> str:
    """A section of parts that are HTML already."""
    body = "".join(parts)
    return (
        f'<section id="{name}" aria-labelledby="h-{name}">\n<h2 id="h-{name}">{title}</h2>\n'
        f"{body}\n</section>\n"
    )


def chart_grid(drawn: Iterable[Chart]) -> str:
    """The places of charts, each with its title, its text and its values."""
    found = "".join(
        f'<figure class="figure-{chart.name}"><figcaption>{escape(chart.title)}</figcaption>'
        # the library gives its own element a role and a label: ours is around it
        f'<div role="img" aria-label="{escape(chart.alt)}"><div class="chart" '
        f'id="chart-{chart.name}"></div></div>'
        f'<details class="values" data-chart="{chart.name}"><summary>Values</summary></details>'
        "</figure>\n"
        for chart in drawn
    )
    return f'<div class="figures">{found}</div>'


def beside(grid: str, text: str) -> str:
    """A chart with the text that goes with it."""
    return f'<div class="beside">{grid}<div>{text}</div></div>'


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1
) -> str:
    """A table of cells that are HTML already; all but the first columns are numbers."""

    def cells(row: Sequence[str]) -> str:
        return "".join(
            f"<td>{cell}</td>" if i < text_columns else f'<td class="number">{cell}</td>'
            for i, cell in enumerate(row)
        )

    header = "".join(
        f'<th scope="col"{"" if i < text_columns else " class=number"}>{cell}</th>'
        for i, cell in enumerate(head)
    )
    body = "".join(f"<tr>{cells(row)}</tr>\n" for row in rows)
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{caption}</caption><thead><tr>{header}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>\n"
    )


def cell(share: float | None, interval: Interval | None = None) -> str:
    """A share with its interval, as tables have it."""
    return "–" if share is None else shown_share(share, interval)


def advice(code: str) -> str:
    """What a warning means and what to do about it; other versions may have codes of their own."""
    unknown = Kind(code, "A warning of another version of punoise.", "See that version's README.")
    found = KINDS.get(code, unknown)
    return f"<p>What it means: {escape(found.meaning)}</p><p>What to do: {escape(found.remedy)}</p>"
