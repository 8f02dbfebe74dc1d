"""The frame of every page: one HTML file with its texts, tables, charts, and what draws them.

The sections on where a result comes from: the data, the options, and the files.

The page of one sample: the answer, the warnings, and the charts with their texts.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from .. import __version__
from ..notices import Kind, kinds
from ..prior.base import ESTIMATORS, Estimate, Interval, Settings
from ..prior.document import Prior
from ..prior.estimation import CURVE_METHOD
from ..prior.summary import lower_end, with_interval
from ..tables.rows import LABELED, UNLABELED
from .charts import (
    Chart,
    _begins,
    calibration_chart,
    certainty_list,
    comparisons,
    distributions,
    evidence_charts,
    likelihoods,
    methods,
    population,
    posterior_by_score,
    posterior_histogram,
    roc_curves,
    sensitivity,
    sensitivity_text,
)
from .content import (
    ColumnSummary,
    InputFile,
    Names,
    Passing,
    ReportContent,
    count,
    is_wide,
    number,
    passing_fdr,
    passing_posterior,
    percent,
    percent_range,
    score_range,
    script_json,
    shortened,
)

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
    return "–" if share is None else with_interval(share, interval)


def advice(code: str) -> str:
    """What a warning means and what to do about it; other versions may have codes of their own."""
    unknown = Kind("A warning of another version of punoise.", "See that version's README.")
    found = kinds().get(code, unknown)
    return f"<p>What it means: {escape(found.meaning)}</p><p>What to do: {escape(found.remedy)}</p>"


KINDS_OF_COLUMNS = {"number": "numeric", "boolean": "true/false", "category": "categorical"}


def data_section(content: ReportContent, names: Names) -> str:
    """How many rows there are, and what the columns hold."""
    sketch = content.sketch
    labeled = "labeled as negatives" if content.prior.labeled_negatives else "labeled"
    sizes = {
        labeled: sketch.n_labeled,
        "unlabeled": sketch.n_unlabeled,
        "known negatives": sketch.n_negative,
    }
    rows = [[name, count(size)] for name, size in sizes.items() if size]
    text = table("Rows", ["set", "rows"], rows)
    if content.provenance is None:
        return text + "<p>Add <code>--provenance</code> for a summary of the columns.</p>"
    columns = content.provenance.columns
    gaps = sum(column.missing for column in columns)
    total = sum(column.values + column.missing for column in columns)
    kinds: dict[str, set[str]] = {}
    for column in columns:
        kind = KINDS_OF_COLUMNS.get(column.kind, "of another kind")
        kinds.setdefault(kind, set()).add(column.column)
    parts = ", ".join(f"{len(found)} {kind}" for kind, found in kinds.items())
    share = f" ({percent(gaps / total)} of all)" if gaps else ""
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
    listed = table("Columns of the tables", head, rows, text_columns=3)
    return (
        f"<details><summary>All columns</summary>{listed}{_more(len(columns), 'lines')}</details>"
    )


def _more(found: int, what: str) -> str:
    if found <= MAX_LISTED:
        return ""
    return f"<p>{count(found - MAX_LISTED)} more {what} are in provenance.json.</p>"


def provenance_section(content: ReportContent, names: Names) -> str:
    """With what version and options the answer was made, and from which files."""
    prior, given = content.prior, content.provenance
    rows = [
        ["punoise", names.html(prior.version)],
        ["method", names.html(prior.method)],
        ["seed", str(prior.seed)],
    ]
    if prior.answer is not None and prior.answer.assumed is not None:
        rows.append(["assumed beforehand", names.html(prior.answer.assumed.words, 500)])
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
            "<p>Add <code>--provenance</code> with the provenance.json that <code>punoise run"
            "</code> wrote to list the inputs and options of the run.</p>"
        )
    return table("Versions and options", ["", ""], rows, text_columns=2) + text


def _files(caption: str, found: Sequence[InputFile], names: Names) -> str:
    rows = [
        [names.html(file.name), f"<code>{names.html(file.sha256, 64)}</code>"]
        for file in found[:MAX_LISTED]
    ]
    return table(caption, ["file", "SHA-256"], rows, text_columns=2) + _more(len(found), "files")


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


MAX_WARNINGS = 50
LARGEST_GROUPS = 20  # that are listed


def sample_charts(content: ReportContent) -> dict[str, list[Chart]]:
    """The charts of one sample by section."""
    return {
        "assumption": sensitivity(content),
        "scores": distributions(content),
        "roc": [roc_curves(content)],
        "curves": likelihoods(content.prior, _elbow(content)),
        "methods": methods(content.prior),
        "posterior": [
            calibration_chart(content),
            posterior_by_score(content),
            *posterior_histogram(content),
        ],
        "evidence": evidence_charts(content),
    }


def render(content: ReportContent) -> str:
    """The page of one sample."""
    names, drawn = Names(), sample_charts(content)
    title = "punoise report"
    heading = title
    if content.prior.sample is not None:
        heading = f"{title}: {names.html(content.prior.sample, 80)}"
    more, scores, roc, curves, by_method, posterior, _ = map(chart_grid, drawn.values())
    sections = [
        section("answer", "The answer", _answer(content)),
        section("warnings", "Warnings", _warnings(content, names)),
        _assumption(content, more) if drawn["assumption"] else "",
        section("scores", "Score distributions", _scores_text(content, drawn), scores),
        section("roc", "How well the score ranks", beside(roc, _roc_text(content))),
        *(() if content.is_stated else _estimation(content.prior, drawn, curves, by_method, names)),
        *_audit_section(content.prior),
        section(
            "posterior", "Posteriors", _posterior_text(content), _passing_tables(content), posterior
        ),
        evidence_section(content, drawn["evidence"]),
        _groups_section(content, names),
        section("labels", "Labels to check", _suspicious(content, names)),
        section("data", "Data", data_section(content, names)),
        section("provenance", "Provenance", provenance_section(content, names)),
    ]
    return whole_page(title, heading, sections, [c for group in drawn.values() for c in group])


def _estimation(
    prior: Prior, drawn: dict[str, list[Chart]], curves: str, by_method: str, names: Names
) -> list[str]:
    """The sections on how α and β were estimated."""
    parts = _methods_text(prior), by_method, _methods_table(prior, names)
    return [
        section("curves", "AlphaMax's likelihood", _curves_text(drawn["curves"]), curves),
        section("methods", "Methods compared", *parts),
    ]


# The answer and the warnings


def _answer(content: ReportContent) -> str:
    answer, sketch = content.answer, content.sketch
    stated = ", as stated" if content.is_stated else ""
    of = "unlabeled rows" if sketch.n_unlabeled else "rows of the population"
    said = f"of the {of} are positive{stated}"
    cards = _card("α", said, answer.alpha, answer.alpha_ci, sketch.n_unlabeled, "positives")
    said = f"of the labeled rows are truly {content.prior.labeled_class}{stated}"
    cards += _card("β", said, answer.beta, answer.beta_ci, sketch.n_labeled, "correct labels")
    return (
        f'<p class="lead">{_sentence(content)}</p><div class="cards">{cards}</div>'
        f"{certainty_list(content.prior)}{_width_text(answer)}{_population_text(content)}"
        f"{_care_text(len(content.notices))}"
    )


def _sentence(content: ReportContent) -> str:
    """The answer in a sentence."""
    answer, sketch = content.answer, content.sketch
    opening, that = ("You stated that", "that ") if content.is_stated else ("An estimated", "")
    rows = "the rows of a population"
    if sketch.n_unlabeled:
        rows = f"the {count(sketch.n_unlabeled)} unlabeled rows"
    truly = "truly are negative" if content.prior.labeled_negatives else "truly are"
    return (
        f"{opening} <strong>{percent(answer.alpha)}</strong> of "
        f"{rows} are positive{_clause(answer.alpha_ci)}, and {that}"
        f"<strong>{percent(answer.beta)}</strong> of the {count(sketch.n_labeled)} labeled rows "
        f"{truly}{_clause(answer.beta_ci)}."
    )


def _clause(interval: Interval | None) -> str:
    return f" (95&nbsp;% interval {percent_range(interval)})" if interval else ""


def _card(
    symbol: str, text: str, share: float, interval: Interval | None, rows: int, what: str
) -> str:
    low, high = interval or (share, share)
    low = lower_end((low, high))
    expected = f"about {count(share * rows)} {what}" if rows else ""
    if rows and interval:
        expected += f", between {count(low * rows)} and {count(high * rows)}"
    bar = (
        f'<div class="bar" aria-hidden="true"><span style="left:{100 * low:.2f}%;'
        f'width:{100 * (high - low):.2f}%"></span><i style="left:{100 * share:.2f}%"></i></div>'
    )
    return (
        f'<div class="card"><p class="value"><span>{symbol}</span> {percent(share)}</p>'
        f"<p>{text}</p>{bar}<p><small>{expected}</small></p></div>"
    )


def _wide_shares(answer: Estimate) -> list[str]:
    """Those of α and β whose intervals are wide."""
    found = {"α": (answer.alpha, answer.alpha_ci), "β": (answer.beta, answer.beta_ci)}
    return [symbol for symbol, (share, interval) in found.items() if is_wide(share, interval)]


def _width_text(answer: Estimate) -> str:
    wide = _wide_shares(answer)
    if not wide:
        return ""
    what = f"interval of {wide[0]} is" if len(wide) == 1 else "intervals of α and β are"
    return (
        f"<p>The {what} wide. Where positives and negatives overlap, no amount of data can settle "
        "how much of the overlap is positive: always quote the interval with the estimate.</p>"
    )


def _population_text(content: ReportContent) -> str:
    """For which population the posteriors are, where that is not the one of all unlabeled rows."""
    if content.by_score.rows_by_group:
        return (
            '<p class="notice">The posteriors in the table of rows are those of each row\'s own '
            "group (<code>--by</code>); the charts here are of all rows together.</p>"
        )
    target = content.by_score.target_alpha
    if target is None:
        return ""
    of = "rows of this sample" if content.sketch.n_unlabeled else "population that was stated"
    return (
        f'<p class="notice">The posteriors, calls and false discovery rates below are for another '
        f"population, in which {percent(target)} of the rows are positive "
        "(<code>--target-alpha</code>). α, β, the score distributions and the ROC curves are those "
        f"of the {of}.</p>"
    )


def _care_text(number_of: int) -> str:
    if number_of == 0:
        return ""
    said = "is a warning" if number_of == 1 else f"are {number_of} warnings"
    return f'<p class="notice">Read with care: <a href="#warnings">there {said}</a>.</p>'


def _warnings(content: ReportContent, names: Names) -> str:
    notices = content.notices
    if not notices:
        return _calm_text(content)
    items = "".join(
        f"<li><div><strong>{names.html(notice.message, 400)}</strong> "
        f"<code>{names.html(notice.code)}</code></div>{advice(notice.code)}</li>\n"
        for notice in notices[:MAX_WARNINGS]
    )
    rest = len(notices) - MAX_WARNINGS
    more = f"<p>{count(rest)} more warnings are not shown.</p>" if rest > 0 else ""
    return f'<ul class="warnings">{items}</ul>{more}'


def _calm_text(content: ReportContent) -> str:
    """What is said where there is no warning: no comfort where the estimates are uncertain."""
    answer = content.answer
    if content.is_stated:
        return "<p>No warnings, but α and β were stated, and nothing here checks them.</p>"
    if wide := _wide_shares(answer):
        return f"<p>No warnings, but the interval of {' and of '.join(wide)} is wide.</p>"
    if answer.alpha_ci is None or answer.beta_ci is None:
        return "<p>No warnings, but the estimates come without intervals.</p>"
    return (
        '<p class="good">No warnings: nothing unusual was found in the data or the estimates.</p>'
    )


# Texts beside the charts


def _assumption(content: ReportContent, chart: str) -> str:
    text = sensitivity_text(content)
    return section("assumption", "What the answer assumes", beside(chart, text))


def _scores_text(content: ReportContent, drawn: dict[str, list[Chart]]) -> str:
    sketch = content.sketch
    low, high = score_range(sketch)
    beyond = sketch.scores[0] < low or sketch.scores[-1] > high
    ends = " Rows that score beyond the axis are counted in the outermost bars." if beyond else ""
    among = "among the unlabeled rows" if sketch.n_unlabeled else "in the population"
    if len(drawn["scores"]) > 2:
        ends += (
            f" The positives {among} are too few to be seen at this scale, so they are also shown "
            "enlarged."
        )
    theirs, ours = "for the unlabeled rows", "and β for the labeled ones"
    if content.prior.labeled_negatives:
        ours = "and 1&nbsp;−&nbsp;β for the labeled ones"
    mixed = ""
    if sketch.n_negative:
        mixed = " The dashed line shows the known negatives."
    if not sketch.n_unlabeled:
        theirs = "for the population"
        mixed += " The population is a mixture of them and of the labeled rows, in which α are "
        mixed += "positive, as there are no unlabeled rows."
    implied = "α and β" if content.is_stated else "the estimates"
    return (
        "<p>Each histogram splits the rows of one sample into the positives (blue) and negatives "
        f"(grey) that {implied} imply. The blue share of the area is α {theirs} "
        f"{ours}.{mixed}{ends}</p>{HINT}"
    )


def _roc_text(content: ReportContent) -> str:
    sketch, compared = content.sketch, comparisons(content)
    rows = [[f"{each.said}, observed", f"{each.auc(sketch):.3f}"] for each in compared]
    if content.auc is not None:
        rows.append(["positives against negatives, corrected", f"{content.auc:.3f}"])
    other = "negative" if content.prior.labeled_negatives else "positive"
    why = (
        f"Labels can be wrong and unlabeled rows can be {other}, so the observed curve understates"
    )
    shares, row = "one, α and β", "unlabeled row"
    if not sketch.n_unlabeled:
        why, row = "Labels can be wrong, so the observed curve can understate", "row"
        shares = "one and β"
    elif sketch.n_negative:
        shares = "one of labeled against unlabeled rows, α and β"
    return (
        f"<p>{why} how well the score separates the two classes. The corrected AUC follows from "
        f"the observed {shares}. The recovered curve weights each {row} by its "
        "posterior, so the area under it can differ a little from the corrected AUC.</p>"
        + table("Area under the curve", ["", "AUC"], rows)
    )


def _curves_text(drawn: Sequence[Chart]) -> str:
    if not drawn:
        return "<p>This prior comes without likelihood curves.</p>"
    return (
        "<p>For experts: the log-likelihood stays flat as long as a proportion is possible and "
        "drops beyond it. AlphaMax picks the elbow; judge by eye whether it is where you would put "
        "it.</p>"
    )


def _elbow(content: ReportContent) -> Estimate | None:
    """AlphaMax's own point on the curves: as estimated, or found again from the same scores."""
    prior, sketch = content.prior, content.sketch
    if not prior.curves:
        return None
    if prior.labeled_negatives:  # the curves are of their class, and so is the elbow
        sketch = sketch.mirrored()
    elif own := [e for e in prior.estimates if e.method == CURVE_METHOD]:
        return Estimate(own[0].alpha, own[0].beta, own[0].alpha_plus, own[0].beta_plus)
    if (prior.n_labeled, prior.n_unlabeled) != (sketch.n_labeled, sketch.n_unlabeled):
        return None  # the curves are those of other rows
    return ESTIMATORS[CURVE_METHOD].estimate(sketch.without_negatives(), Settings())


def _methods_text(prior: Prior) -> str:
    if len(prior.estimates) > 1:
        return (
            "<p>The answer is drawn in blue; it gains support where the methods agree. Where they "
            "disagree, rely on the interval of <code>auto</code>, which also reflects what the "
            "scores leave open; the intervals of the others reflect sampling error only.</p>"
        )
    return "<p>Only one method was run; <code>--method all</code> runs them all.</p>"


def _methods_table(prior: Prior, names: Names) -> str:
    rows = [
        [
            f"<strong>{names.html(estimate.method)}</strong> (the answer)"
            if estimate.method == prior.method
            else names.html(estimate.method),
            cell(estimate.alpha, estimate.alpha_ci),
            cell(estimate.beta, estimate.beta_ci),
            cell(estimate.alpha_plus),
            cell(estimate.beta_plus),
        ]
        for estimate in prior.estimates
    ]
    return table("Estimates by method", ["method", "α", "β", "α⁺", "β⁺"], rows)


def _audit_section(prior: Prior) -> list[str]:
    """What was verified by hand, where something was."""
    if prior.audit is None:
        return []
    text = (
        f"<p>{count(prior.n_verdicts or 0)} rows were verified by hand, drawn at random within "
        "strata of the score. What they say of α and β rests on nothing but that the verdicts are "
        "right. If the posteriors that the rows were drawn by are right, verdicts as far from them "
        f"as these have a probability of {number(prior.audit.calibration_p, 3)}.</p>"
    )
    keys = ("set", "stratum", "rows", "verdicts", "positive", "expected")
    rows = [
        [escape(stratum.set), *(number(getattr(stratum, key), 4) for key in keys[1:])]
        for stratum in prior.audit.strata[:MAX_LISTED]
    ]
    head = ["sample", "stratum", "rows", "verified", "positive", "expected by the posteriors"]
    return [section("audit", "Rows verified", text, table("Verdicts by stratum", head, rows))]


def _posterior_text(content: ReportContent) -> str:
    where = population(content.by_score)
    band = ""
    if content.by_score.bounds is not None:
        uncertain = "the scores" if content.is_stated else "the scores and of α and β"
        band = (
            " The band in the chart of posteriors by score shows one-sided 95&nbsp;% bounds, which "
            f"allow for the uncertainty of {uncertain}."
        )
    shown = (
        "how many unlabeled rows reach a given posterior, and how many can be called at a given "
        f"false discovery rate (FDR){where}"
    )
    if not content.sketch.n_unlabeled:
        shown = (
            "from which score on rows reach a given posterior or can be called at a given false "
            f"discovery rate (FDR){where}, and how many labeled rows and known negatives do"
        )
    return (
        f"<p>The posterior is the probability that a row{where} is positive, given its score. The "
        f"tables show {shown}.{band}</p>"
    )


def _passing_tables(content: ReportContent) -> str:
    curve = content.by_score

    def expected(passing: Passing) -> str:
        if curve.other_alpha is None:
            return count(passing.positives)
        return "–" if passing.positive_share is None else percent(passing.positive_share)

    def rows_of(passing: Passing) -> list[str]:
        if content.sketch.n_unlabeled:
            return [count(passing.rows)]
        return [count(passing.labeled), count(passing.negative)]

    # rows of another population are not at hand to be counted: only their mixture is known
    counted = ["unlabeled rows"] if content.sketch.n_unlabeled else ["labeled", "known negatives"]
    of_these = "expected positives"
    if curve.other_alpha is not None:
        of_these = "positives expected among such rows of that population"
    head = ["", *counted, of_these, "from score"]

    def listed(
        caption: str, sign: str, levels: Sequence[Passing], shown: Callable[[float], str]
    ) -> str:
        rows = [
            [f"{sign} {shown(p.level)}", *rows_of(p), expected(p), number(p.lowest_score)]
            for p in levels
        ]
        return table(caption, head, rows)

    by_posterior = listed("By posterior", "at least", passing_posterior(curve), str)
    by_fdr = listed(
        "By false discovery rate", "at most", passing_fdr(curve), lambda x: f"{100 * x:g}&nbsp;%"
    )
    return f'<div class="figures">{by_posterior}{by_fdr}</div>'


def _groups_section(content: ReportContent, names: Names) -> str:
    """The largest groups, where there are any."""
    found = content.groups
    if found is None:
        return ""
    shares, places = found.shares, found.largest(LARGEST_GROUPS)
    rows = [
        [
            names.html(found.names[place]),
            *(count(found.rows[place, code]) for code in (UNLABELED, LABELED)),
            cell(shares.alpha[place], (shares.alpha_low[place], shares.alpha_high[place])),
            number(shares.shift[place], 2),
        ]
        for place in places
    ]
    text = (
        f"<p>α was estimated for each of {count(len(found.names) - 1)} groups "
        f"(<code>--by {names.html(found.by)}</code>), of which the largest are shown. A group "
        "leans on all others the more the fewer rows it has. The posteriors in the table of rows "
        "are those of each row's own group; the charts here are of all rows together. The shift "
        "says how much higher the scores of a group lie, in standard deviations.</p>"
    )
    head = ["group", "unlabeled rows", "labeled rows", "α", "shift"]
    return section("groups", "Groups", text, table("Largest groups", head, rows))


def _suspicious(content: ReportContent, names: Names) -> str:
    if content.answer.beta > 1 - 1e-9:
        return "<p>β is 1: every label is taken to be correct, so there is none to check.</p>"
    rows = [
        [names.html(row.id), count(row.row), number(row.score), number(row.correct, 3)]
        for row in content.suspicious[:MAX_LISTED]
    ]
    text = (
        f"<p>The {len(rows)} labeled rows that are least likely to be "
        f"{content.prior.labeled_class}, the most doubtful first: if you check labels by hand, "
        "start here.</p>"
    )
    head = ["id", "row in the scores file", "score", "probability that the label is correct"]
    return f'{text}<div class="scroll">{table("Most doubtful labels", head, rows)}</div>'


def evidence_section(content: ReportContent, charts: list[Chart]) -> str:
    """The section on evidence, empty where none was asked for."""
    found = content.thresholds
    if found is None:
        return ""
    has_negatives = found.calibration.sketch.n_negative > 0
    rows = []
    for one in found.levels:
        reached = one.reached
        rows.append(
            [
                escape(shortened(one.level.code)),
                "–" if one.level.points is None else f"{one.level.points:+d}",
                _begins(found, one),
                number(one.level.lr, 3),
                "–" if reached is None else number(reached.lr, 3),
                "–" if reached is None else number(reached.posterior, 3),
                "–" if reached is None else number(reached.posterior_bound, 3),
                count(one.n_unlabeled),
                count(one.n_labeled),
                *([count(one.n_negatives)] if has_negatives else []),
            ]
        )
    text = (
        "<p>A level is reached from the score on at which the one-sided 95&nbsp;% bound on the "
        "likelihood ratio meets the level's. Posteriors are for a population with "
        f"{percent(found.prior)} positives. Counted are all rows with at least that evidence.</p>"
    )
    head = [
        *("level", "points", "score", "likelihood ratio needed", "likelihood ratio there"),
        *("posterior there", "its bound", "unlabeled rows", "labeled rows"),
        *(["known negatives"] if has_negatives else []),
    ]
    return section(
        "evidence", "Evidence", text, table("Thresholds", head, rows), chart_grid(charts)
    )
