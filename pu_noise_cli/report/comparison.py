"""The page that compares samples, failed ones included."""

from __future__ import annotations

from collections.abc import Sequence

from ..estimators import Estimate, Interval
from ..prior import STATED, Prior
from .chart import Chart
from .content import Sample
from .forest import SYMBOLS, ForestLine, forest
from .frame import HINT, MAX_LISTED, advice, cell, chart_grid, section, table, whole_page
from .text import Names, count, is_wide, percent, percent_range

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
    return ", ".join(f"<code>{names.html(code)}</code>" for code, _ in prior.notices[:20])


def _codes(samples: Sequence[Sample]) -> str:
    codes = sorted({notice.code for _, prior in samples for notice in prior.notices})[:MAX_LISTED]
    if not codes:
        return "<p>No sample has a warning.</p>"
    names = Names(budget=0)
    items = "".join(
        f"<li><p><code>{names.html(code)}</code></p>{advice(code)}</li>\n" for code in codes
    )
    return f'<ul class="warnings">{items}</ul>'
