"""The report as one HTML file: text, tables and charts, and all that draws them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shlex
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from .. import __version__
from ..errors import Notice
from ..estimators import ESTIMATORS, Settings
from ..prior import CURVE_METHOD
from ..sketch import Sketch
from . import charts
from .advice import advice
from .charts import Chart, ForestLine
from .content import ColumnSummary, Estimates, InputFile, PriorView, ReportContent
from .summaries import (
    Passing,
    observed_roc,
    passing_fdr,
    passing_posterior,
    recovered_roc,
    score_range,
)
from .text import (
    Names,
    count,
    number,
    percent,
    percent_range,
    script_json,
)

MAX_LISTED = 100  # columns, files and options that are listed one by one
MAX_WARNINGS = 50
MAX_SAMPLES = 1000  # samples that are drawn and listed
HINT = (
    '<p class="hint">Point at a chart for its values. Pinch, or turn the wheel with Ctrl held, to '
    "zoom; drag to move; double-click to go back. “Values” lists what a chart shows.</p>"
)


# The pages


def single_charts(content: ReportContent) -> dict[str, list[Chart]]:
    """The charts of one sample by section."""
    return {
        "scores": charts.distributions(content),
        "roc": [charts.roc_curves(content)],
        "curves": charts.likelihoods(content.prior, _elbow(content)),
        "methods": charts.methods(content.prior),
        "posterior": [
            charts.calibration_chart(content),
            charts.posterior_curves(content),
            charts.posterior_histogram(content),
        ],
    }


def render(content: ReportContent) -> str:
    """The page of one sample."""
    names, drawn = Names(), single_charts(content)
    title = "punoise report"
    heading = title
    if content.prior.has_sample_name:
        heading = f"{title}: {names.html(content.prior.name, 80)}"
    sections = [
        _section("answer", "The answer", _answer(content)),
        _section("warnings", "Warnings", _warnings(content.notices, names)),
        _section(
            "scores",
            "Scores of the two samples",
            _scores_text(content.sketch),
            _figures(drawn["scores"]),
        ),
        _section(
            "roc",
            "How well the score ranks",
            f'<div class="beside">{_figures(drawn["roc"])}<div>{_roc_text(content)}</div></div>',
        ),
        _section(
            "curves",
            "AlphaMax's likelihood",
            _curves_text(drawn["curves"]),
            _figures(drawn["curves"]),
        ),
        _section(
            "methods",
            "Methods side by side",
            _methods_text(content.prior),
            _figures(drawn["methods"]),
            _methods_table(content.prior, names),
        ),
        _section(
            "posterior",
            "Posteriors",
            _posterior_text(),
            _passing_tables(content),
            _figures(drawn["posterior"]),
        ),
        _section("labels", "Labels to check", _suspicious(content, names)),
        _section("data", "Data", _data(content, names)),
        _section("provenance", "Provenance", _provenance(content, names)),
    ]
    return _page(title, heading, sections, [c for group in drawn.values() for c in group])


def sample_charts(priors: Sequence[PriorView]) -> list[Chart]:
    """The forest plots of α and β over samples."""
    found = [prior for prior in priors[:MAX_SAMPLES] if prior.estimated]
    drawn = []
    for name, symbol, text in (
        ("alpha", "α", "share of positives among the unlabeled rows"),
        ("beta", "β", "share of true positives among the labeled rows"),
    ):
        lines = [
            ForestLine(
                prior.name,
                getattr(prior.answer, name),
                getattr(prior.answer, f"{name}_ci"),
                not prior.notices,
            )
            for prior in found
        ]
        if lines:
            title = f"{symbol} by sample: {text}"
            drawn.append(charts.forest(f"samples-{name}", title, symbol, lines))
    return drawn


def render_samples(priors: Sequence[PriorView]) -> str:
    """The page that compares samples, failed ones included."""
    names, drawn = Names(), sample_charts(priors)
    title = "punoise report: samples compared" if len(priors) > 1 else "punoise report"
    text = (
        "<p>Each line is a 95&nbsp;% interval with its estimate. Grey lines come with "
        f"warnings, which the table names.</p>{HINT}"
    )
    sections = [
        _section("answer", "The answer", _samples_answer(priors)),
        _section("forest", "α and β of each sample", text, _figures(drawn)) if drawn else "",
        _section("samples", "All samples", _samples_table(priors, names)),
        _section("warnings", "What the warnings mean", _codes(priors)),
    ]
    return _page(title, title, [section for section in sections if section], drawn)


def _page(title: str, heading: str, sections: Iterable[str], drawn: Iterable[Chart]) -> str:
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


def _section(name: str, title: str, *parts: str) -> str:
    body = "".join(parts)
    return (
        f'<section id="{name}" aria-labelledby="h-{name}">\n<h2 id="h-{name}">{title}</h2>\n'
        f"{body}\n</section>\n"
    )


def _figures(drawn: Iterable[Chart]) -> str:
    figures = "".join(
        f'<figure class="figure-{chart.name}"><figcaption>{escape(chart.title)}</figcaption>'
        # the library gives its own element a role and a label: ours is around it
        f'<div role="img" aria-label="{escape(chart.alt)}"><div class="chart" '
        f'id="chart-{chart.name}"></div></div>'
        f'<details class="values" data-chart="{chart.name}"><summary>Values</summary></details>'
        "</figure>\n"
        for chart in drawn
    )
    return f'<div class="figures">{figures}</div>'


def _table(
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


# The answer and the warnings


def _with_interval(share: float, interval: tuple[float, float] | None) -> str:
    return percent(share) + (
        f" (95&nbsp;% interval: {percent_range(interval)})" if interval else " (no interval)"
    )


def _answer(content: ReportContent) -> str:
    answer = content.prior.answer
    alpha, beta = answer.alpha or 0.0, answer.beta or 0.0
    unlabeled, labeled = content.sketch.n_unlabeled, content.sketch.n_labeled
    sentence = (
        f"An estimated <strong>{percent(alpha)}</strong> of the {count(unlabeled)} unlabeled rows "
        f"are positive{_clause(answer.alpha_ci)}, and <strong>{percent(beta)}</strong> of the "
        f"{count(labeled)} labeled rows truly are{_clause(answer.beta_ci)}."
    )
    cards = _card(
        "α", "of the unlabeled rows are positive", alpha, answer.alpha_ci, unlabeled, "positives"
    ) + _card(
        "β", "of the labeled rows are truly positive", beta, answer.beta_ci, labeled, "right labels"
    )
    care = ""
    if content.notices:
        number_of = len(content.notices)
        what = "a warning" if number_of == 1 else f"{number_of} warnings"
        care = f'<p class="notice">Read with care: there {"is" if number_of == 1 else "are"} '
        care += f'<a href="#warnings">{what}</a>.</p>'
    wide = ""
    if answer.alpha_ci and answer.alpha_ci[1] - answer.alpha_ci[0] > max(alpha, 0.1):
        wide = (
            "<p>The interval of α is wide. Where positives and negatives overlap, no amount "
            "of data settles how much of the overlap is positive: quote the interval with the "
            "estimate.</p>"
        )
    return f'<p class="lead">{sentence}</p><div class="cards">{cards}</div>{wide}{care}'


def _clause(interval: tuple[float, float] | None) -> str:
    return f" (95&nbsp;% interval {percent_range(interval)})" if interval else ""


def _card(
    symbol: str, text: str, share: float, interval: tuple[float, float] | None, rows: int, what: str
) -> str:
    low, high = interval or (share, share)
    expected = f"about {count(share * rows)} {what}"
    if interval:
        expected += f", between {count(low * rows)} and {count(high * rows)}"
    bar = (
        f'<div class="bar" aria-hidden="true"><span style="left:{100 * low:.2f}%;'
        f'width:{100 * (high - low):.2f}%"></span><i style="left:{100 * share:.2f}%"></i></div>'
    )
    return (
        f'<div class="card"><p class="value"><span>{symbol}</span> {percent(share)}</p>'
        f"<p>{text}</p>{bar}<p><small>{expected}</small></p></div>"
    )


def _warnings(notices: Sequence[Notice], names: Names) -> str:
    if not notices:
        return '<p class="good">None: nothing about the data or the estimates stands out.</p>'
    items = "".join(
        f"<li><div><strong>{names.html(notice.message, 400)}</strong> "
        f"<code>{names.html(notice.code)}</code></div>"
        f"<p>What it means: {escape(advice(notice.code).meaning)}</p>"
        f"<p>What to do: {escape(advice(notice.code).remedy)}</p></li>\n"
        for notice in notices[:MAX_WARNINGS]
    )
    rest = len(notices) - MAX_WARNINGS
    more = f"<p>{count(rest)} more warnings are not shown.</p>" if rest > 0 else ""
    return f'<ul class="warnings">{items}</ul>{more}'


# Texts beside the charts


def _scores_text(sketch: Sketch) -> str:
    low, high = score_range(sketch)
    beyond = sketch.scores[0] < low or sketch.scores[-1] > high
    ends = " Rows beyond the drawn scores are counted in the bars at the ends." if beyond else ""
    return (
        "<p>Rows by score, the unlabeled and the labeled ones each as the sum of the positives "
        "(blue) and negatives (grey) that the estimates imply. The blue share of the area is α "
        f"on the one side and β on the other.{ends}</p>{HINT}"
    )


def _roc_text(content: ReportContent) -> str:
    seen = observed_roc(content.sketch).auc
    recovered = recovered_roc(content.calibration)
    rows = [["labeled against unlabeled rows, as seen", f"{seen:.3f}"]]
    if recovered is not None:
        rows.append(["positives against negatives, recovered curve", f"{recovered.auc:.3f}"])
    if content.prior.auc is not None:
        rows.append(["positives against negatives, by α and β alone", f"{content.prior.auc:.3f}"])
    return (
        "<p>The labels are noisy and the unlabeled rows hold positives, so the curve that can be "
        "seen is too low. Counting each unlabeled row as positive by its posterior gives the "
        "curve of the classes themselves.</p>" + _table("Area under the curve", ["", "AUC"], rows)
    )


def _curves_text(drawn: Sequence[Chart]) -> str:
    if not drawn:
        return "<p>This prior comes without likelihood curves.</p>"
    return (
        "<p>For experts: the log-likelihood stays flat while a proportion is possible and falls "
        "beyond it. AlphaMax takes the elbow; compare it with the one your eye finds.</p>"
    )


def _elbow(content: ReportContent) -> Estimates | None:
    """AlphaMax's own point on the curves: as estimated, or found again from the same scores."""
    if not content.prior.curves:
        return None
    for estimate in content.prior.estimates:
        if estimate.method == CURVE_METHOD:
            return estimate
    rows = (content.prior.n_labeled, content.prior.n_unlabeled)
    if rows != (content.sketch.n_labeled, content.sketch.n_unlabeled):
        return None  # the curves are those of other rows
    options = {} if content.provenance is None else content.provenance.options
    elbow = "authors" if options.get("elbow") == "authors" else "robust"
    found = ESTIMATORS[CURVE_METHOD].estimate(content.sketch, Settings(elbow=elbow))
    return Estimates(
        CURVE_METHOD, found.alpha, None, found.beta, None, found.alpha_plus, found.beta_plus
    )


def _methods_text(prior: PriorView) -> str:
    if len(prior.estimates) > 1:
        return (
            "<p>Methods that agree strengthen the answer (blue); where they differ, read the "
            "interval of <code>auto</code>, which also carries what the scores leave open. The "
            "intervals of the others carry the sampling error alone.</p>"
        )
    return "<p>One method ran. <code>--method all</code> runs every one for comparison.</p>"


def _methods_table(prior: PriorView, names: Names) -> str:
    rows = [
        [
            f"<strong>{names.html(e.method)}</strong> (the answer)"
            if e.method == prior.answer.method
            else names.html(e.method),
            _cell(e.alpha, e.alpha_ci),
            _cell(e.beta, e.beta_ci),
            _cell(e.alpha_plus, None),
            _cell(e.beta_plus, None),
        ]
        for e in prior.estimates
    ]
    return _table("Estimates by method", ["method", "α", "β", "α⁺", "β⁺"], rows)


def _cell(share: float | None, interval: tuple[float, float] | None) -> str:
    if share is None:
        return "–"
    return f"{share:.4f}" + (f" [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else "")


def _posterior_text() -> str:
    return (
        "<p>The posterior of a row is the probability that it is positive, given its score. "
        "Calling all rows from a level of the posterior up, or all that an accepted false "
        "discovery rate (FDR) allows, gives this many:</p>"
    )


def _passing_tables(content: ReportContent) -> str:
    head = ["", "unlabeled rows", "expected positives", "from score"]

    def table(caption: str, sign: str, levels: Sequence[Passing], shown: Any) -> str:
        rows = [
            [f"{sign} {shown(p.level)}", count(p.rows), count(p.positives), number(p.lowest_score)]
            for p in levels
        ]
        return _table(caption, head, rows)

    calibration = content.calibration
    return (
        '<div class="figures">'
        + table("By posterior", "at least", passing_posterior(calibration), str)
        + table(
            "By false discovery rate",
            "at most",
            passing_fdr(calibration),
            lambda x: f"{100 * x:g}&nbsp;%",
        )
        + "</div>"
    )


# Labels, data, provenance


def _suspicious(content: ReportContent, names: Names) -> str:
    if (content.prior.answer.beta or 0) > 1 - 1e-9:
        return "<p>β is 1: all labels are taken as right, so none is suspicious.</p>"
    rows = [
        [names.html(row.id), count(row.row), number(row.score), number(row.posterior_labeled, 3)]
        for row in content.suspicious[:MAX_LISTED]
    ]
    text = (
        f"<p>The {len(rows)} labeled rows that are least likely to be positive, the most doubtful "
        "first. Look at these before any others.</p>"
    )
    head = ["id", "row of the scores", "score", "probability that the label is right"]
    table = _table("Labeled rows by low posterior", head, rows)
    return f'{text}<div class="scroll">{table}</div>'


def _data(content: ReportContent, names: Names) -> str:
    sketch = content.sketch
    rows = [
        ["labeled", count(sketch.n_labeled)],
        ["unlabeled", count(sketch.n_unlabeled)],
    ]
    text = _table("Rows", ["set", "rows"], rows)
    if content.provenance is None:
        return text + "<p>For a summary of the columns, add <code>--provenance</code>.</p>"
    columns = content.provenance.columns
    gaps = sum(column.missing for column in columns)
    total = sum(column.values + column.missing for column in columns)
    kinds: dict[str, set[str]] = {}
    for column in columns:
        kinds.setdefault(column.kind, set()).add(column.column)
    parts = ", ".join(f"{len(found)} {escape(kind)}" for kind, found in kinds.items())
    share = f" ({percent(gaps / total)})" if gaps else ""
    text += (
        f"<p>{len({column.column for column in columns})} columns ({parts}); "
        f"{count(gaps)} missing values{share}.</p>"
    )
    return text + _columns_table(columns, names)


def _columns_table(columns: Sequence[ColumnSummary], names: Names) -> str:
    rows = [
        [
            names.html(column.column),
            names.html(column.table),
            names.html(column.kind),
            count(column.values),
            count(column.missing),
            "–" if column.levels is None else count(column.levels),
        ]
        for column in columns[:MAX_LISTED]
    ]
    head = ["column", "table", "kind", "values", "missing", "categories"]
    listed = _table("Columns of the tables", head, rows, text_columns=3)
    return (
        f"<details><summary>All columns</summary>{listed}{_more(len(columns), 'lines')}</details>"
    )


def _more(found: int, what: str) -> str:
    if found <= MAX_LISTED:
        return ""
    return f"<p>{count(found - MAX_LISTED)} more {what} are in provenance.json.</p>"


def _provenance(content: ReportContent, names: Names) -> str:
    prior, given = content.prior, content.provenance
    rows = [
        ["punoise", escape(prior.version)],
        ["method", names.html(prior.answer.method)],
        ["seed", "–" if prior.seed is None else str(prior.seed)],
    ]
    text = ""
    if given is not None:
        rows += [
            [f"option {names.html(name)}", names.html(_option_text(value), 200)]
            for name, value in list(given.options.items())[:MAX_LISTED]
            if name != "seed"
        ]
        text += _files("Inputs of the run", given.inputs, names)
        text += _command(given.options, names)
    if content.sources:
        text += _files("Files this report was made from", content.sources, names)
    if given is None:
        text += (
            "<p>For the inputs and options of the run, add <code>--provenance</code> with the "
            "provenance.json that <code>punoise run</code> wrote.</p>"
        )
    return _table("Versions and options", ["", ""], rows, text_columns=2) + text


def _files(caption: str, found: Sequence[InputFile], names: Names) -> str:
    rows = [
        [names.html(file.name), f"<code>{escape(file.sha256[:64])}</code>"]
        for file in found[:MAX_LISTED]
    ]
    table = _table(caption, ["file", "SHA-256"], rows, text_columns=2)
    return table + _more(len(found), "files")


def _option_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_option_text, value))
    return str(value)


def _command(options: dict[str, Any], names: Names) -> str:
    words = " ".join(shlex.quote(word) for word in command_words(options))
    return f"<p>To repeat the run:</p><pre>{names.html(words, 1000)}</pre>"


def command_words(options: dict[str, Any]) -> list[str]:
    """The command line that gives `run` these options."""
    words = ["punoise", "run"]
    for name, value in options.items():
        option = "--" + {"table_format": "format"}.get(name, name).replace("_", "-")
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


# Several samples


def _samples_answer(priors: Sequence[PriorView]) -> str:
    found = [(prior.answer.alpha, prior) for prior in priors if prior.answer.alpha is not None]
    if not found:
        return '<p class="lead">No sample has an estimate; the table says why.</p>'
    low, lowest = min(found, key=lambda pair: pair[0])
    high, highest = max(found, key=lambda pair: pair[0])
    if len(found) == 1:
        beta = _with_interval(lowest.answer.beta or 0.0, lowest.answer.beta_ci)
        text = (
            f"An estimated {_with_interval(low, lowest.answer.alpha_ci)} of the unlabeled rows of "
            f"{_plain(lowest)} are positive, and {beta} of its labeled rows truly are."
        )
    else:
        text = (
            f"The estimated share of positives among the unlabeled rows (α) of {len(found)} "
            f"samples goes from {percent(low)} ({_plain(lowest)}) to {percent(high)} "
            f"({_plain(highest)})."
        )
    failed = len(priors) - len(found)
    if failed:
        text += f" {failed} {'has' if failed == 1 else 'have'} no estimate; the table says why."
    return f'<p class="lead">{text}</p>'


def _plain(prior: PriorView) -> str:
    """A name within a sentence, cut; the table has the whole of it."""
    return Names(budget=0).html(prior.name)


def _samples_table(priors: Sequence[PriorView], names: Names) -> str:
    rows = [
        [
            names.html(prior.name),
            _sample_warnings(prior, names),
            _cell(prior.answer.alpha, prior.answer.alpha_ci),
            _cell(prior.answer.beta, prior.answer.beta_ci),
            "–" if prior.auc is None else f"{prior.auc:.3f}",
            *("–" if n is None else count(n) for n in (prior.n_labeled, prior.n_unlabeled)),
        ]
        for prior in priors[:MAX_SAMPLES]
    ]
    head = ["sample", "warnings", "α", "β", "AUC", "labeled", "unlabeled"]
    table = _table("Estimates by sample, with 95&nbsp;% intervals", head, rows, text_columns=2)
    rest = len(priors) - MAX_SAMPLES
    return table + (f"<p>{count(rest)} more samples were given.</p>" if rest > 0 else "")


def _sample_warnings(prior: PriorView, names: Names) -> str:
    if not prior.estimated:
        reasons = "; ".join(notice.message for notice in prior.notices) or "no reason given"
        return f"<strong>No estimate:</strong> {names.html(reasons, 160)}"
    return ", ".join(f"<code>{names.html(code)}</code>" for code, _ in prior.notices[:20])


def _codes(priors: Sequence[PriorView]) -> str:
    codes = sorted({notice.code for prior in priors for notice in prior.notices})[:MAX_LISTED]
    if not codes:
        return '<p class="good">No sample has a warning.</p>'
    names = Names(budget=0)
    items = "".join(
        f"<li><p><code>{names.html(code)}</code></p><p>What it means: "
        f"{escape(advice(code).meaning)}</p><p>What to do: {escape(advice(code).remedy)}</p></li>"
        for code in codes
    )
    return f'<ul class="warnings">{items}</ul>'
