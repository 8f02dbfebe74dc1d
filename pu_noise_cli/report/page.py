"""The pages of a report: each one HTML file with its texts, tables and charts.

Chart specifications, in charts/*.vl.json, are Vega-Lite with three additions, which `Chart.spec`
resolves: a string "$name" stands for a color or another value; an object with "when" is left out
unless that value is true, and with "then" as well it stands for what "then" holds; usermeta.columns
are the headings of a row's fields, which "$columns" repeats.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from .. import __version__
from ..errors import UsageError
from ..tables.writing import Provenance, make_directory, write_atomically, write_table
from .content import (
    POSTERIOR_BINS,
    Columns,
    Histogram,
    Likelihood,
    Proportion,
    ReportContent,
    Roc,
    count,
    log_odds,
    number,
    percent,
    percent_range,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

Spec = dict[str, Any]
Row = dict[str, Any]

PRINT = {
    "paper": "white",
    "ink": "#1c2430",
    "faint": "#5b6573",
    "grid": "#e3e7ec",
    "positive": "#1f6fbf",
    "negative": "#8e99a8",
    "labeled": "#c2500a",
    "unlabeled": "#1c2430",
    "known": "#8a1c7c",
}
# The style sheet of the page has these colors, for light and dark modes.
PAGE = {name: f"var(--{name})" for name in PRINT} | {"paper": "transparent"}

MAX_NAME = 48  # characters of a name that are shown at once
MAX_TEXT = 20_000  # characters of a name that are kept at all
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi marks, lone surrogates


def visible(text: str) -> str:
    """Text with characters that are invisible, or change its direction, spelled out."""
    return "".join(
        c if c == " " or unicodedata.category(c) not in INVISIBLE else _escaped(c)
        for c in text[:MAX_TEXT]
    )


def _escaped(character: str) -> str:
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(character)
    return escapes.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def shortened(text: str, limit: int = MAX_NAME) -> str:
    """A name on one line, cut if it is long."""
    line = visible(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def rounded(value: float) -> float:
    """A value to the six digits that charts carry."""
    return float(f"{value:.6g}")


def as_rows(columns: Columns) -> list[Row]:
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
            "config": _fill(_specification("theme"), values),
        }

    @property
    def columns(self) -> dict[str, str]:
        """The headings of the fields of a row."""
        columns = _fill(_specification(self.kind)["usermeta"]["columns"], self.values)
        return {column["field"]: column["title"] for column in columns}


@cache
def _specification(kind: str) -> Spec:
    name = "theme.json" if kind == "theme" else f"{kind}.vl.json"
    file = resources.files(__package__).joinpath("charts", name)
    return dict(json.loads(file.read_text(encoding="utf-8")))


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


# ---- The charts of one sample


def sample_charts(content: ReportContent) -> dict[str, list[Chart]]:
    """The charts of one sample by section of the page."""
    return {
        "assumption": _sensitivity(content),
        "scores": [chart for one in content.histograms for chart in _distribution(content, one)],
        "roc": [_roc(content)],
        "curves": [_likelihood(content, one) for one in content.likelihoods],
        "methods": _methods(content),
        "posterior": [_calibration(content), _posterior_by_score(content), *_posteriors(content)],
        "evidence": _evidence(content),
    }


def score_title(content: ReportContent) -> str:
    """The name of the axis of scores: the column that they come from, if that is known."""
    provenance = content.provenance
    if provenance is None or provenance.score_column is None:
        return "score"
    negated = provenance.options.get("lower_is_positive") is True
    return shortened(provenance.score_column) + (" (opposite sign)" if negated else "")


def population(content: ReportContent) -> str:
    """The population that posteriors are for, to follow a noun; empty for the unlabeled rows."""
    if content.population_alpha is None:
        return ""
    return f" in a population with {percent(content.population_alpha)} positives"


def _sensitivity(content: ReportContent) -> list[Chart]:
    sensitivity = content.sensitivity
    if sensitivity is None:
        return []
    rows, words = as_rows(sensitivity.columns), content.words
    labeled_class = content.labeled_class
    ends = "; ".join(
        f"{percent_range(row['low'], row['high'])} at {percent(row['purity'])}"
        for row in (rows[0], rows[-1])
    )
    alt = (
        f"The 95 % interval of α by the least share of {labeled_class}s assumed among the "
        f"{words['best_scoring']} unlabeled rows: {ends}."
    )
    if sensitivity.is_used:
        alt += f" Assumed here: {percent(sensitivity.stated)}."
    return [
        Chart(
            "assumption",
            "sensitivity",
            "What α's interval becomes if more is assumed",
            alt,
            rows,
            {
                "assumed": sensitivity.is_used,
                "purity_title": f"least share of {labeled_class}s assumed at the {words['end']}",
            },
            {"assumed": [{"purity": rounded(sensitivity.stated)}]},
        )
    ]


LINES = {"labeled": "labeled rows", "unlabeled": "unlabeled rows", "known": "known negatives"}


def _distribution(content: ReportContent, histogram: Histogram) -> list[Chart]:
    """The scores of one sample, and, if its positives are too few to be seen, them enlarged."""
    sample, rows = histogram.sample, as_rows(histogram.columns)
    is_population = sample == "population"
    subject = f"the {sample} rows"
    if is_population:
        subject = f"a population with {percent(histogram.fraction)} positives"
    others = " and of the ".join(LINES[name] for name in histogram.lines)
    values = {
        "score_title": score_title(content),
        "total_title": "all rows" if is_population else f"{sample} rows",
        "domain": [rows[0]["low"], rows[-1]["high"]],
        **{f"{name}_line": name in histogram.lines for name in LINES},
    }
    plain = Chart(
        f"scores-{sample}",
        "scores",
        f"Scores of {subject}",
        f"Histogram of the scores of {subject}, split into the estimated positives, "
        f"{percent(histogram.fraction)} of the area, and negatives, with the scores of the "
        f"{others} as {'a line' if len(histogram.lines) == 1 else 'lines'}.",
        rows,
        values,
    )
    if histogram.enlarged_top is None:
        return [plain]
    top = rounded(histogram.enlarged_top)
    enlarged = Chart(
        f"positives-{sample}",
        "positives",
        f"Positives {'in' if is_population else 'among'} {subject}, enlarged",
        f"The same histogram of {subject} with its vertical axis cut at "
        f"{percent(histogram.enlarged_top)} of the rows, so that the few positives can be seen.",
        # cut here, as Vega numbers clipped marks by how many it has drawn
        [row | {"cut": min(row["total"], top)} for row in rows],
        values | {"top": top},
    )
    return [plain, enlarged]


def set_name(name: str) -> str:
    return "known negatives" if name == "negative" else name


def _roc(content: ReportContent) -> Chart:
    """The observed ROC curves, and that of the classes behind them."""
    recovered = "positives against negatives (recovered)"
    curves = {
        f"{roc.upper} against {set_name(roc.lower)} (observed)": roc
        for roc in content.observed_rocs
    }
    aucs = [f"{name}: AUC {roc.auc:.3f}" for name, roc in curves.items()]
    drawn: dict[str, Roc] = dict(curves)
    if content.recovered_roc is not None:
        drawn[recovered] = content.recovered_roc
        if content.auc is not None:
            aucs.append(f"{recovered}: AUC {content.auc:.3f}")
    first = content.observed_rocs[0]
    lower = "negatives" if first.lower == "negative" else f"{first.lower} rows (negatives)"
    return Chart(
        "roc",
        "roc",
        "ROC curves",
        f"ROC curves. {'; '.join(aucs)}.",
        [{"curve": name, **row} for name, roc in drawn.items() for row in as_rows(roc.columns)],
        {
            "x_title": f"{lower} above the threshold",
            "y_title": f"{first.upper} rows (positives) above it",
            "curves": [*curves, recovered],
            "against_unlabeled": any(roc.lower != "negative" for roc in content.observed_rocs),
            "against_known": any(roc.lower == "negative" for roc in content.observed_rocs),
        },
    )


LIKELIHOOD_TITLES = {
    "alpha_plus": "how much of the labeled distribution fits into the unlabeled one",
    "beta_plus": "how much of the unlabeled distribution fits into the labeled one",
}


def _likelihood(content: ReportContent, likelihood: Likelihood) -> Chart:
    """AlphaMax's log-likelihood in one direction, with its elbow and the answer's value."""
    symbol = {"alpha_plus": "α⁺", "beta_plus": "β⁺"}[likelihood.name]
    marks = {
        f"{symbol} of the answer ({shortened(content.prior.method, 20)})": likelihood.answer,
        "AlphaMax's elbow (alphamax-n)": likelihood.elbow,
    }
    # log-likelihoods in full: the elbow is a matter of a few units among millions
    points = [
        {
            "mark": mark,
            "x": rounded(x),
            "y": round(float(np.interp(x, likelihood.x, likelihood.y)), 2),
        }
        for mark, x in marks.items()
        if x is not None
    ]
    listed = "; ".join(f"{point['mark']}: {point['x']:.3g}" for point in points)
    return Chart(
        f"likelihood-{likelihood.name.replace('_', '-')}",
        "likelihood",
        f"{symbol}: {LIKELIHOOD_TITLES[likelihood.name]}",
        f"AlphaMax's log-likelihood by {symbol}, flat at first and falling beyond the elbow. "
        f"{listed}.",
        [
            {"x": rounded(x), "y": round(y, 2)}
            for x, y in zip(likelihood.x.tolist(), likelihood.y.tolist(), strict=True)
        ],
        {
            "symbol": symbol,
            "points": [point["mark"] for point in points],
            "two_points": len(points) > 1,
        },
        {"points": points},
    )


def _calibration(content: ReportContent) -> Chart:
    """The predicted fraction of labeled rows against the observed one."""
    columns = content.reliability
    predicted, low, high = columns["predicted"], columns["low"], columns["high"]
    outside = int(((predicted < low) | (predicted > high)).sum())
    top = rounded(float(max(high.max(), predicted.max())))
    against = "" if content.sketch.n_unlabeled else ", against known negatives"
    tau = " (tau)" if content.sketch.n_unlabeled else ""
    return Chart(
        "calibration",
        "calibration",
        f"Calibration: predicted and observed share of labeled rows{against}",
        f"{len(predicted)} groups of rows by score; in {len(predicted) - outside} of them the "
        f"predicted share of labeled rows{against and against + ','} lies within the 95 % interval "
        "of the observed share.",
        as_rows(columns),
        {"x_title": f"predicted labeled share{tau}"},
        {"diagonal": [{"predicted": end, "observed": end} for end in (0, top)]},
    )


def _posterior_by_score(content: ReportContent) -> Chart:
    """The probability by score that an unlabeled and that a labeled row is positive."""
    rows, where = as_rows(content.by_score), population(content)
    row, title = "an unlabeled row", "posterior, unlabeled row"
    if where:
        row, title = f"a row{where}", "posterior in that population"
    half = next((row["score"] for row in rows if row["posterior"] >= 0.5), None)
    reached = "never reaches one half"
    if half is not None:
        reached = f"is at least one half from a score of {half:.3g} up"
    has_bounds = "low" in content.by_score
    band = " A band shows one-sided 95 % bounds on the former." if has_bounds else ""
    return Chart(
        "posterior-by-score",
        "posterior_by_score",
        f"Posterior by score{where}",
        f"Probability by score that {row} is positive, and that a labeled row is. "
        f"The former {reached}.{band}",
        rows,
        {
            "score_title": score_title(content),
            "posterior_title": title,
            "row": row,
            "bounds": has_bounds,
        },
    )


def _posteriors(content: ReportContent) -> list[Chart]:
    """How many unlabeled rows have which posterior, if there are any."""
    if not content.sketch.n_unlabeled:
        return []
    counts, where = content.posterior_rows, population(content)
    half = int(counts[POSTERIOR_BINS // 2 :].sum())
    edges = np.linspace(0, 1, POSTERIOR_BINS + 1)
    return [
        Chart(
            "posteriors",
            "posteriors",
            f"Posteriors of the unlabeled rows{where}",
            f"Histogram of the posteriors of the unlabeled rows{where}; {half:,} are at least 0.5.",
            as_rows({"low": edges[:-1], "high": edges[1:], "rows": counts.astype(int)}),
        )
    ]


EVIDENCE_TICKS = (0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)


def _evidence(content: ReportContent) -> list[Chart]:
    """The posterior by score with the levels of evidence, if they were asked for.

    The axis is even in the odds, which evidence multiplies; its labels are probabilities.
    """
    evidence, provenance = content.evidence, content.provenance
    if evidence is None:
        return []
    listed = "; ".join(
        f"{one.level.code} {begins}"
        for one, begins in zip(evidence.levels, evidence.begins, strict=True)
    )
    column = None if provenance is None else provenance.score_column
    return [
        Chart(
            "evidence",
            "evidence",
            f"Evidence by score, at a prior of {percent(evidence.prior)}",
            f"The posterior by score with one-sided 95 % bounds, and where levels begin: {listed}.",
            as_rows(evidence.columns),
            {
                "score_title": shortened(column or "score"),
                "ticks": log_odds(np.array(EVIDENCE_TICKS)).tolist(),
            },
            {
                "levels": [
                    {
                        "score": one.reached.score_from,
                        "level": one.level.code,
                        "against": one.level.against,
                    }
                    for one in evidence.levels
                    if one.reached is not None
                ]
            },
        )
    ]


# ---- Forest plots, of methods or of samples

LINE_HEIGHT = 26  # pixels
MAX_LISTED_LINES = 12  # in the text of a chart
NO_ESTIMATE = "failed: no estimate"


@dataclass(frozen=True)
class ForestLine:
    """A line of a forest plot; a sample that failed has no value."""

    label: str
    value: Proportion | None
    is_stressed: bool = False

    @property
    def text(self) -> str:
        if self.value is None:
            return NO_ESTIMATE
        interval = "" if self.value.high is None else f" ({self.value.range})"
        return percent(self.value.value) + interval


def forest(name: str, title: str, symbol: str, lines: Sequence[ForestLine]) -> Chart:
    """Estimates with their intervals, one below the other."""
    labels = _distinct([shortened(line.label, 40) for line in lines])
    listed = "; ".join(
        f"{shortened(line.label, 40)}: {line.text}" for line in lines[:MAX_LISTED_LINES]
    )
    rest = len(lines) - MAX_LISTED_LINES
    rows = []
    for label, line in zip(labels, lines, strict=True):
        shown = {key: getattr(line.value, key, None) for key in ("value", "low", "high")}
        numbers = {key: None if x is None else rounded(x) for key, x in shown.items()}
        rows.append(
            {"label": label, **numbers, "estimate": line.text, "stressed": line.is_stressed}
        )
    return Chart(
        name,
        "forest",
        title,
        f"{title}. {listed}{f'; and {rest} more' if rest > 0 else ''}.",
        rows,
        {
            "symbol": symbol,
            "labels": labels,
            "height": LINE_HEIGHT * len(rows),
            "failed": NO_ESTIMATE if any(line.value is None for line in lines) else "",
        },
    )


def _distinct(labels: Iterable[str]) -> list[str]:
    """Labels made distinct by a number."""
    distinct: dict[str, None] = {}
    for label in labels:
        candidate, number = label, 1
        while candidate in distinct:
            number += 1
            candidate = f"{label} ({number})"
        distinct[candidate] = None
    return list(distinct)


def _methods(content: ReportContent) -> list[Chart]:
    """α and β by each method that ran."""
    if not content.estimates:
        return []
    lines = {
        symbol: [
            ForestLine(one.method, getattr(one, name), one.is_answer) for one in content.estimates
        ]
        for name, symbol in (("alpha", "α"), ("beta", "β"))
    }
    return [
        forest("methods-alpha", "α by method", "α", lines["α"]),
        forest("methods-beta", "β by method", "β", lines["β"]),
    ]


# ---- Figures for papers

FIGURE_WIDTH = 460  # pixels
PNG_SCALE = 3
SUMMARY = pa.schema([(name, pa.string()) for name in ("figure", "row", "quantity", "value")])


def converter() -> Any:
    """The module that draws charts without a browser; only the `report` extra installs it."""
    try:
        import vl_convert
    except ImportError:
        raise UsageError("--figures needs another package: pip install 'punoise[report]'") from None
    return vl_convert


def write_figures(charts: Sequence[Chart], directory: str) -> None:
    """Write an SVG and a PNG file for each chart, and summary.tsv with their numbers."""
    convert, files = converter(), {}
    for chart in charts:
        svg = convert.vegalite_to_svg(chart.spec(PRINT, FIGURE_WIDTH))
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


# ---- Pages

MAX_LISTED = 100  # columns, files, options and codes that are listed one by one
MAX_WARNINGS = 50
FULL_TEXT_BYTES = 150_000  # of all long names of a page together, so that it stays light


def render(content: ReportContent) -> str:
    """The page of one sample."""
    charts = sample_charts(content)
    provenance = content.provenance
    options = {} if provenance is None else _shown_options(provenance)
    proportions = {"α": content.alpha, "β": content.beta}
    return render_page(
        "sample.html",
        "punoise report",
        [chart for group in charts.values() for chart in group],
        **vars(content),
        charts=charts,
        population=population(content),
        wide=[symbol for symbol, proportion in proportions.items() if proportion.is_wide],
        columns=None if provenance is None else _column_totals(provenance),
        options=[(name, _option_text(value)) for name, value in options.items()][:MAX_LISTED],
        command=shlex.join(command_words(options)),
        max_warnings=MAX_WARNINGS,
    )


def render_page(template: str, title: str, drawn: list[Chart], **values: Any) -> str:
    """A page of charts, by a template that extends base.html."""
    scripts = [_asset("vega.js"), _asset("page.js")]
    # Only these two scripts may run, whatever a name in the data tries; Vega compiles expressions
    # of the specifications, which needs 'unsafe-eval'. Nothing may be fetched from anywhere.
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src 'unsafe-eval' {' '.join(map(_source_hash, scripts))}"
    )
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            drawn=drawn,
            version=__version__,
            policy=policy,
            style=_asset("page.css"),
            scripts=scripts,
            name=Names().html,
            short_name=Names(budget=0).html,
            max_listed=MAX_LISTED,
            **values,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["script_json"] = lambda value: _html(script_json(value))
    environment.filters |= {
        "percent": percent,
        "count": count,
        "number": number,
        "decimals": lambda value: "–" if value is None else f"{value:.4f}",
        "shortened": shortened,
        "base_name": base_name,
        "code_options": lambda text: _html(
            re.sub(r"--[a-z][a-z-]*", r"<code>\g<0></code>", escape(text))
        ),
    }
    return environment


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _source_hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _html(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


# ---- Text and JSON from anywhere


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


# ---- Provenance

COLUMN_KINDS = {"number": "numeric", "boolean": "true/false", "category": "categorical"}


def _column_totals(provenance: Provenance) -> dict[str, Any]:
    kinds: dict[str, set[str]] = {}
    for column in provenance.columns:
        kind = COLUMN_KINDS.get(column.kind or "", "of another kind")
        kinds.setdefault(kind, set()).add(column.column)
    missing = sum(column.missing for column in provenance.columns)
    values = sum(column.values for column in provenance.columns)
    return {
        "total": len({column.column for column in provenance.columns}),
        "kinds": ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items()),
        "missing": missing,
        "missing_fraction": missing / max(missing + values, 1),
    }


def base_name(path: str) -> str:
    """A file's name without its directories, which differ between machines."""
    return Path(path).name or path


def _shown_options(provenance: Provenance) -> dict[str, Any]:
    """The options, files first and without their directories."""
    tables = [entry.table for entry in provenance.inputs]
    files = {name: base_name(v) for name, v in provenance.options.items() if v in tables}
    return files | {name: v for name, v in provenance.options.items() if name not in files}


def _option_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_option_text, value))
    return str(value)


def command_words(options: dict[str, Any]) -> list[str]:
    """The command line that gives `run` these options."""
    words = ["punoise", "run"]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if name == "transform" and value is False:
            words.append("--no-transform")
        elif value is True:
            words.append(option)
        elif isinstance(value, list | tuple):
            for item in value:
                words += [option, _comma_list(item)]
        elif value is not None and value is not False:
            words += [option, str(value)]
    return [*words, "--out-dir", "results"]


def _comma_list(item: Any) -> str:
    if not isinstance(item, list | tuple):
        return str(item)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(item)
    return line.getvalue()
