"""The page that compares samples, failed ones included.

Many PRIOR.json as one table, and as custom content for MultiQC's general statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from .. import __version__
from ..errors import InputError
from ..prior.base import Estimate, Interval
from ..prior.document import STATED, Prior
from .charts import SYMBOLS, Chart, ForestLine, forest
from .content import Names, Sample, count, is_wide, percent, percent_range
from .page import HINT, MAX_LISTED, advice, cell, chart_grid, section, table, whole_page

MAX_SAMPLES = 1000  # samples that are drawn and listed


def comparison_charts(samples: Sequence[Sample]) -> list[Chart]:
    """The forest plots of α and β over samples; none where all have failed."""
    correct = "true positives"
    if any(sample.prior.labeled_negatives for sample in samples):
        correct = "correct labels"
    texts = {
        "alpha": "share of positives among the unlabeled rows",
        "beta": f"share of {correct} among the labeled rows",
    }
    if all(sample.prior.answer is None for sample in samples[:MAX_SAMPLES]):
        return []
    return [
        forest(
            f"samples-{share}",
            f"{symbol} by sample: {texts[share]}",
            symbol,
            [
                ForestLine.of(name, share, prior.answer, stressed=not prior.notices)
                for name, prior in samples[:MAX_SAMPLES]
            ],
        )
        for share, symbol in SYMBOLS.items()
    ]


def render_comparison(samples: Sequence[Sample]) -> str:
    """The page that compares samples, failed ones included."""
    names, drawn = Names(), comparison_charts(samples)
    title = "punoise report: samples compared" if len(samples) > 1 else "punoise report"
    text = (
        "<p>Each estimate is drawn with its 95&nbsp;% interval. Samples with warnings are grey; "
        f"the table below names the warnings.</p>{HINT}"
    )
    sections = [
        section("answer", "The answer", _samples_answer(samples)),
        section("forest", "α and β of each sample", text, chart_grid(drawn)) if drawn else "",
        section("samples", "All samples", _samples_table(samples, names)),
        section("warnings", "What the warnings mean", _codes(samples)),
    ]
    return whole_page(title, title, [found for found in sections if found], drawn)


def _samples_answer(samples: Sequence[Sample]) -> str:
    found = [(prior.answer, name) for name, prior in samples if prior.answer is not None]
    if not found:
        return '<p class="lead">No sample has an estimate; the table says why.</p>'
    lowest, highest = (pick(found, key=lambda pair: pair[0].alpha) for pick in (min, max))
    if len(found) == 1:
        (text,) = (_one_answer(name, prior) for name, prior in samples if prior.answer is not None)
    else:
        text = (
            f"Across {len(found)} samples, the estimated share of positives among the unlabeled "
            f"rows (α) ranges from {percent(lowest[0].alpha)} ({_cut(lowest[1])}) to "
            f"{percent(highest[0].alpha)} ({_cut(highest[1])})."
        )
    failed = len(samples) - len(found)
    if failed:
        text += f" {failed} sample{' has' if failed == 1 else 's have'} no estimate; the table "
        text += "says why."
    return f'<p class="lead">{text}</p>{_width_text([answer for answer, _ in found])}'


def _one_answer(name: str, prior: Prior) -> str:
    """The answer of one sample, which must have one, in a sentence."""
    answer = prior.answer
    assert answer is not None
    alpha = f"An estimated {_with_interval(answer.alpha, answer.alpha_ci)}"
    beta = _with_interval(answer.beta, answer.beta_ci)
    if prior.method == STATED:
        alpha, beta = f"A stated {percent(answer.alpha)}", percent(answer.beta)
    rows = "rows of the population" if prior.n_unlabeled == 0 else "unlabeled rows"
    truly = "truly are negative" if prior.labeled_negatives else "truly are"
    return (
        f"{alpha} of the {rows} of {_cut(name)} are positive, and {beta} of its labeled rows "
        f"{truly}."
    )


def _with_interval(share: float, interval: Interval | None) -> str:
    return percent(share) + (
        f" (95&nbsp;% interval: {percent_range(interval)})" if interval else " (no interval)"
    )


def _width_text(answers: Sequence[Estimate]) -> str:
    wide = sum(is_wide(answer.alpha, answer.alpha_ci) for answer in answers)
    if wide == 0:
        return ""
    if len(answers) == 1:
        return "<p>The interval of α is wide: quote it with the estimate.</p>"
    return (
        f"<p>The interval of α is wide in {wide} of {len(answers)} samples: quote the intervals "
        "with the estimates.</p>"
    )


def _cut(name: str) -> str:
    """A name within a sentence, cut; the table has the whole of it."""
    return Names(budget=0).html(name)


def _samples_table(samples: Sequence[Sample], names: Names) -> str:
    rows = []
    for name, prior in samples[:MAX_SAMPLES]:
        answer = prior.answer
        rows.append(
            [
                names.html(name),
                _sample_warnings(prior, names),
                "–" if answer is None else cell(answer.alpha, answer.alpha_ci),
                "–" if answer is None else cell(answer.beta, answer.beta_ci),
                "–" if prior.auc is None else f"{prior.auc:.3f}",
                *("–" if n is None else count(n) for n in (prior.n_labeled, prior.n_unlabeled)),
            ]
        )
    head = ["sample", "warnings", "α", "β", "AUC", "labeled rows", "unlabeled rows"]
    caption = "Estimates by sample, with 95&nbsp;% intervals; AUC of positives against negatives"
    rest = len(samples) - MAX_SAMPLES
    more = f"<p>{count(rest)} more samples are not shown.</p>" if rest > 0 else ""
    return table(caption, head, rows, text_columns=2) + more


def _sample_warnings(prior: Prior, names: Names) -> str:
    if prior.answer is None:
        reasons = "; ".join(notice.message for notice in prior.notices) or prior.reason
        return f"<strong>No estimate:</strong> {names.html(reasons, 160)}"
    return ", ".join(f"<code>{names.html(notice.code)}</code>" for notice in prior.notices[:20])


def _codes(samples: Sequence[Sample]) -> str:
    codes = sorted({notice.code for _, prior in samples for notice in prior.notices})[:MAX_LISTED]
    if not codes:
        return "<p>No sample has a warning.</p>"
    names = Names(budget=0)
    items = "".join(
        f"<li><p><code>{names.html(code)}</code></p>{advice(code)}</li>\n" for code in codes
    )
    return f'<ul class="warnings">{items}</ul>'


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("sample", "status", "reason")),
        *((name, pa.float64()) for name in ("alpha", "alpha_low", "alpha_high")),
        *((name, pa.float64()) for name in ("beta", "beta_low", "beta_high", "auc")),
        *((name, pa.int64()) for name in ("n_labeled", "n_unlabeled", "n_negatives")),
        ("warnings", pa.string()),
    ]
)
SHARE = {"min": 0, "max": 1, "format": "{:,.3f}"}
MULTIQC_HEADERS: dict[str, dict[str, Any]] = {
    "alpha": {"title": "α", "description": "Share of positives among the unlabeled rows"},
    "alpha_low": {"title": "α low", "description": "Lower end of the 95 % interval of α"},
    "alpha_high": {"title": "α high", "description": "Upper end of the 95 % interval of α"},
    "beta": {"title": "β", "description": "Share of the labeled rows that are what the labels say"},
    "beta_low": {"title": "β low", "description": "Lower end of the 95 % interval of β"},
    "beta_high": {"title": "β high", "description": "Upper end of the 95 % interval of β"},
    "auc": {"title": "AUC", "description": "Positives against negatives"},
    "warnings": {"title": "Warnings", "description": "Codes of what to be careful about"},
}
HIDDEN = ("beta_low", "beta_high")


def as_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as a table."""
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def summarize(priors: Iterable[tuple[str, Prior]]) -> list[dict[str, Any]]:
    """One row for each prior, named by its file, in their order; a failed one says why."""
    rows: dict[str, dict[str, Any]] = {}
    files: dict[str, str] = {}
    for file, prior in priors:
        row = _row(file, prior)
        sample = row["sample"]
        if sample in rows:
            raise InputError(
                f"{file}: has the same sample name as {files[sample]}, {sample!r}; "
                "give each its own by --sample of 'estimate-prior'"
            )
        rows[sample], files[sample] = row, file
    return list(rows.values())


def _row(file: str, prior: Prior) -> dict[str, Any]:
    failed = prior.answer is None
    return {
        "sample": _printable(prior.sample_name(file)),
        "status": "failed" if failed else "ok",
        "reason": " ".join(_printable(prior.reason).split()) if failed else None,
        **_interval("alpha", prior.answer),
        **_interval("beta", prior.answer),
        "auc": prior.auc,
        "n_labeled": prior.n_labeled,
        "n_unlabeled": prior.n_unlabeled,
        "n_negatives": prior.n_negatives,
        "warnings": _printable(",".join(notice.code for notice in prior.notices)),
    }


def _interval(share: str, estimate: Estimate | None) -> dict[str, float | None]:
    low, high = getattr(estimate, f"{share}_ci", None) or (None, None)
    return {share: getattr(estimate, share, None), f"{share}_low": low, f"{share}_high": high}


def _printable(text: str) -> str:
    """Text that UTF-8 can hold; JSON may have lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def multiqc_content(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """MultiQC's custom content: columns of its general statistics table.

    MultiQC puts names and texts into its page as they are, so they are escaped here; of a name
    with a slash it would keep the end only.
    """
    headers = {
        key: {**header, **({} if key == "warnings" else SHARE), "hidden": key in HIDDEN}
        for key, header in MULTIQC_HEADERS.items()
    }
    data: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = " ".join(escape(row["sample"].replace("/", "_")).split())
        while name in data:
            name += "_"
        values = {key: row[key] for key in headers if row[key] not in (None, "")}
        if "warnings" in values:
            values["warnings"] = escape(values["warnings"])
        data[name] = values
    return {
        "id": "punoise",
        "plot_type": "generalstats",
        "namespace": "punoise",
        "description": f"Class priors by punoise {__version__}",
        "headers": [{key: header} for key, header in headers.items()],
        "data": data,
    }
