"""Pages of texts, tables and charts, each one HTML file, and charts as figures.

Chart specifications, in charts/*.vl.json, are Vega-Lite with three additions, which `Chart.spec`
resolves: a string "$name" stands for a color or another value; an object with "when" is left out
unless that value is true, and with "then" as well it stands for what "then" holds; usermeta.columns
are the headings of a row's fields, which "$columns" repeats.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from .. import __version__
from ..errors import UsageError, option
from ..prior.base import Interval
from ..prior.document import lower_end, percent
from ..tables.writing import make_directory, write_atomically, write_table

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

PACKAGE = __package__.rpartition(".")[0]
Spec = dict[str, Any]
Row = dict[str, Any]

# Also distinct in greyscale: fills differ by 3:1, lines have patterns of their own.
PRINT = {
    "paper": "white",
    "surface": "white",
    "ink": "#1c2430",
    "faint": "#5b6573",
    "grid": "#e3e7ec",
    "positive": "#0a3f80",
    "negative": "#8a95a3",
    "labeled": "#b3440a",
    "unlabeled": "#1c2430",
    "known": "#8a1c7c",
    "against": "#1b7a8c",
}
# The style sheet of the page has these colors, for light and dark modes.
PAGE = {name: f"var(--{name})" for name in PRINT}
PAGE |= {"paper": "transparent", "surface": "var(--paper)"}

STACKED = {"top": {"direction": "vertical", "anchor": "start"}}
NBSP = "\u00a0"
WIDE = 0.4  # width of an interval beyond which an estimate says little
MAX_NAME = 48  # characters of a name that are shown at once
MAX_TEXT = 20_000  # characters of a name that are kept at all
MAX_LISTED = 100  # columns, files, options and codes that are listed one by one
FULL_TEXT_BYTES = 150_000  # of all long names of a page together, so that it stays light
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi marks, lone surrogates
# a command to its end, or an option with its value
CODE = re.compile(r"(punoise [a-z]+ --.*)|--[a-z][a-z-]*(?: [\d.]+)*")
CODE_CLASS = ' class="option"'
CONTENTS = re.compile(r'<h2 id="h-([a-z]+)">([^<]*)</h2>')  # sections of a page
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


# ---- Numbers and names for readers


def percent_range(low: float, high: float) -> str:
    """An interval for readers, whose lower end is 0 where it is next to nothing."""
    return f"{percent(lower_end((low, high)))} to {percent(high)}"


def count(number: float) -> str:
    """A number of rows, in groups of three digits."""
    return f"{round(number):,}"


def number(value: float | None, digits: int = 4) -> str:
    """A number for a table; a dash for none."""
    return "–" if value is None else f"{value:.{digits}g}"


def visible(text: str) -> str:
    """Text with characters that are invisible, or change its direction, spelled out."""

    def spelled(character: str) -> str:
        if character == " " or unicodedata.category(character) not in INVISIBLE:
            return character
        code = ord(character)
        return ESCAPES.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")

    return "".join(map(spelled, text[:MAX_TEXT]))


def shortened(text: str, limit: int = MAX_NAME) -> str:
    """A name on one line, cut if it is long."""
    line = visible(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def base_name(path: str) -> str:
    """A file's name without its directories, which differ between machines."""
    return Path(path).name or path


@dataclass(frozen=True)
class Proportion:
    """α or β with its 95% interval, whose lower end is 0 where it is next to nothing."""

    value: float
    low: float | None = None
    high: float | None = None
    is_wide: bool = False

    @classmethod
    def from_estimate(cls, value: float, interval: Interval | None) -> Proportion:
        if interval is None:
            return cls(value)
        low, high = interval
        return cls(value, lower_end(interval), high, high - low > min(value, WIDE))

    @property
    def range(self) -> str:
        """The interval in words; there must be one."""
        return percent_range(self.low or 0.0, self.high or 0.0)

    @property
    def text(self) -> str:
        """The value and its interval in words."""
        return percent(self.value) + ("" if self.high is None else f" ({self.range})")

    @property
    def cell(self) -> str:
        """The value and its interval for a table."""
        low = f"{self.low:.4f}" if self.low else "0"
        return f"{self.value:.4f}" + ("" if self.high is None else f" [{low}, {self.high:.4f}]")


# ---- Charts


def rounded(value: float) -> float:
    """A value to the six digits that charts carry."""
    return float(f"{value:.6g}")


def as_rows(columns: Mapping[str, Any]) -> list[Row]:
    """Columns of equal length to rows, with rounded numbers."""
    lists = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    return [
        {k: rounded(v) if isinstance(v, float) else v for k, v in zip(columns, row, strict=True)}
        for row in zip(*lists, strict=True)
    ]


@dataclass(frozen=True)
class Chart:
    """A chart: the name of its specification, its rows, and what fills the specification."""

    name: str  # of its element and its files
    kind: str  # of specification
    title: str
    alt: str
    rows: list[Row]
    values: dict[str, Any] = field(default_factory=dict)
    more_rows: dict[str, list[Row]] = field(default_factory=dict)  # further data sets, by name

    def spec(self, colors: dict[str, str] = PAGE, width: int | str = "container") -> Spec:
        """The complete specification; in print without zoom and tooltips."""
        template = _specification(self.kind)
        values = colors | self.values | {"screen": colors is PAGE}
        values["columns"] = _fill(template["usermeta"]["columns"], values)
        return {
            **_fill(template, values),
            "description": self.alt,
            "width": width,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "datasets": {"rows": self.rows, **self.more_rows},
            "config": _fill(json.loads(_text("charts", "theme.json")), values),
        }

    @property
    def columns(self) -> dict[str, str]:
        """The headings of the fields of a row."""
        columns = _fill(_specification(self.kind)["usermeta"]["columns"], self.values)
        return {column["field"]: column["title"] for column in columns}


def _stacked(spec: Spec) -> Spec:
    """A specification with its legends one below the other, which Vega-Lite's schema lacks."""
    legend = spec["config"]["legend"] | {"layout": STACKED}
    return spec | {"config": spec["config"] | {"legend": legend}}


@cache
def _specification(kind: str) -> Spec:
    return dict(json.loads(_text("charts", f"{kind}.vl.json")))


@cache
def _text(folder: str, name: str) -> str:
    """A file of this room, or of another one whose name comes first: variants/evidence.html."""
    room, _, file = name.rpartition("/")
    path = resources.files(PACKAGE).joinpath(room or "report", folder, file)
    return path.read_text(encoding="utf-8")


def _fill(template: Any, values: dict[str, Any]) -> Any:
    """The template with placeholders replaced and optional parts kept or left out."""
    if isinstance(template, str) and template.startswith("$"):
        return values[template[1:]]
    if isinstance(template, list):
        parts = [x if isinstance(x, dict) else {"then": x} for x in template]
        kept = [part for part in parts if "when" not in part or values[part["when"]]]
        return [_fill(part.get("then", part), values) for part in kept]
    if isinstance(template, dict):
        return {key: _fill(value, values) for key, value in template.items() if key != "when"}
    return template


LINE_HEIGHT, DENSE_HEIGHT = 26, 15  # pixels
MANY_LINES = 40  # more are drawn densely
MAX_LISTED_LINES = 12  # in the text of a chart


def forest(
    name: str, title: str, symbol: str, lines: Sequence[tuple[str, Proportion, bool]]
) -> Chart:
    """Estimates of methods or samples with their intervals, one below the other.

    A line has a label, a proportion, and whether its point is filled.
    """
    names = [shortened(label, 40) for label, _, _ in lines]
    labels = distinct(names)
    proportions = [proportion for _, proportion, _ in lines]
    estimates = [one.text for one in proportions]
    listed = [f"{label}: {text}" for label, text in zip(names, estimates, strict=True)]
    rest = len(lines) - MAX_LISTED_LINES
    rows = {
        "label": labels,
        **{key: [getattr(p, key) for p in proportions] for key in ("value", "low", "high")},
        "estimate": estimates,
        "stressed": [is_stressed for _, _, is_stressed in lines],
    }
    more = f"; and {rest} more" if rest > 0 else ""
    is_dense = len(lines) > MANY_LINES
    highest = max((one.high or one.value for one in proportions), default=1.0)
    top = 1.0 if highest > WIDE else np.ceil(11 * highest) / 10  # of the axis
    return Chart(
        name,
        "forest",
        title,
        f"{title}. {'; '.join(listed[:MAX_LISTED_LINES])}{more}.",
        as_rows(rows),
        {
            "symbol": symbol,
            "labels": labels,
            "height": (DENSE_HEIGHT if is_dense else LINE_HEIGHT) * len(lines),
            "domain": [rounded(-0.02 * top), rounded(1.02 * top)],
            "label_size": 10 if is_dense else 12,
            "point_size": 40 if is_dense else 90,
            "rule_width": 2 if is_dense else 3,
        },
    )


def distinct(labels: Iterable[str]) -> list[str]:
    """Labels made distinct by a number."""
    unique: dict[str, None] = {}
    for label in labels:
        candidate, number = label, 1
        while candidate in unique:
            number += 1
            candidate = f"{label} ({number})"
        unique[candidate] = None
    return list(unique)


# ---- Pages


@dataclass(frozen=True)
class Section:
    """What a domain adds to a page: a template of macros, what fills it, and its charts.

    The macros are body(values, charts), and step(), methods(values) and references() for the parts
    of the page of these names.
    """

    template: str
    values: Mapping[str, Any]
    charts: Sequence[Chart]


@dataclass(frozen=True)
class Page:
    """A page: its template, which extends base.html, and what fills it."""

    template: str
    title: str
    charts: dict[str, list[Chart]]  # by section
    values: dict[str, Any]

    @property
    def drawn(self) -> list[Chart]:
        """All charts, in their order on the page."""
        return [chart for group in self.charts.values() for chart in group]

    def html(self) -> str:
        """The page as one file."""
        scripts = [_text("assets", name) for name in ("vega.js", "page.js")]
        # Only these two scripts may run, whatever a name in the data tries; Vega compiles
        # expressions of the specifications, which needs 'unsafe-eval'. Nothing may be fetched.
        policy = (
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
            f"form-action 'none'; script-src 'unsafe-eval' {' '.join(map(_source_hash, scripts))}"
        )
        template = _environment().get_template(self.template)
        return template.render(
            title=self.title,
            charts=self.charts,
            drawn=self.drawn,
            version=__version__,
            policy=policy,
            style=_text("assets", "page.css"),
            scripts=scripts,
            name=Names().html,
            short_name=Names(budget=0).html,
            max_listed=MAX_LISTED,
            **self.values,
        )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: _text("templates", name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "chart_json": lambda chart: _html(script_json(_stacked(chart.spec()))),
        "proportion": Proportion.from_estimate,
    }
    environment.filters |= {
        "contents": lambda page: CONTENTS.findall(page),
        "percent": percent,
        "count": count,
        "number": number,
        "ratio": lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}",
        "decimals": lambda value: "–" if value is None else f"{value:.4f}",
        "shortened": shortened,
        "base_name": base_name,
        "code_options": lambda text: _html(
            CODE.sub(
                lambda m: f"<code{'' if m[1] else CODE_CLASS}>{m[0]}</code>", escape(text, False)
            )
        ),
    }
    return environment


@cache
def _source_hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _html(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


def script_json(value: Any) -> str:
    """JSON for a script element: nothing in it ends the element or a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class Names:
    """Names from the data as HTML: isolated, on one line, and long ones in full behind a click.

    Full texts are kept until a budget of bytes is spent; later long names are only cut.
    """

    def __init__(self, budget: int = FULL_TEXT_BYTES) -> None:
        self.budget = budget

    def html(self, text: str, limit: int = MAX_NAME) -> Markup:
        short = f"<bdi>{escape(shortened(text, limit))}</bdi>"
        if len(text) <= limit and len(visible(text)) <= limit:
            return _html(short)
        full = f"<bdi>{escape(visible(text))}</bdi>"
        size = len(full.encode())
        if size > self.budget:
            return _html(f"{short} <small>({count(len(text))} characters)</small>")
        self.budget -= size
        cut = "" if len(text) <= MAX_TEXT else f" … ({count(len(text))} characters)"
        return _html(
            f'<details class="long"><summary>{short}</summary>'
            f'<div class="whole">{full}{cut}</div></details>'
        )


# ---- Figures for papers

FIGURE_WIDTH = 460  # pixels
PNG_SCALE = 3
SUMMARY = pa.schema([(name, pa.string()) for name in ("figure", "row", "quantity", "value")])


def converter() -> Any:
    """The module that draws charts without a browser; only the `report` extra installs it."""
    try:
        import vl_convert
    except ImportError:
        needs = f"{option('figures')} needs another package: pip install 'punoise[report]'"
        raise UsageError(needs) from None
    return vl_convert


def write_figures(charts: Sequence[Chart], directory: str) -> None:
    """Write an SVG and a PNG file for each chart, and summary.tsv with their numbers."""
    convert, files = converter(), {}
    for chart in charts:
        svg = convert.vegalite_to_svg(_stacked(chart.spec(PRINT, FIGURE_WIDTH)))
        files[f"{chart.name}.svg"] = svg.encode()
        files[f"{chart.name}.png"] = convert.svg_to_png(svg, scale=PNG_SCALE)
    make_directory(directory)
    for name, content in files.items():
        with write_atomically(os.path.join(directory, name)) as file:
            file.write(content)
    rows = [
        {
            "figure": chart.name,
            "row": str(number),
            "quantity": heading,
            "value": "" if row[name] is None else str(row[name]),
        }
        for chart in charts
        for number, row in enumerate(chart.rows, start=1)
        for name, heading in chart.columns.items()
    ]
    batch = pa.RecordBatch.from_pylist(rows, SUMMARY)
    write_table(os.path.join(directory, "summary.tsv"), batch)
