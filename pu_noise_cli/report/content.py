"""The report of one sample: its numbers, computed once, and its charts.

Time and memory depend on the number of cells of the sketch, not on that of rows.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..evidence.thresholds import Threshold, Thresholds
from ..notices import Kind, Notice, kinds
from ..numerics import FloatArray, IntArray, mid_ranks, relative_mid_ranks
from ..posterior.calibration import Calibration, corrected_auc, posterior_at
from ..posterior.candidates import ListedRows
from ..posterior.groups import Groups
from ..prior.document import (
    LITTLE,
    STATED,
    Prior,
    Wording,
    certainty,
    fixed_beta,
    is_contradicted,
    lower_end,
    percent,
)
from ..prior.estimation import elbows
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED
from ..tables.writing import InputFile, Provenance
from .page import (
    MAX_LISTED,
    NBSP,
    Chart,
    Page,
    Proportion,
    as_rows,
    base_name,
    forest,
    number,
    percent_range,
    rounded,
    shortened,
)

Weights = FloatArray | IntArray  # of the cells of a sketch, shape (cells,)

SCORE_BINS = 64  # a power of two: then the cells of scores in [0, 1] fall whole into bins
MIN_VISIBLE = 0.05  # of the height of a chart: lower bars are drawn once more, enlarged
ENLARGED_HEIGHT = 1.3  # of an enlarged chart, in units of its tallest bar of positives
CURVE_POINTS = 160
MAX_LIKELIHOOD_POINTS = 500
RELIABILITY_GROUPS = 20
POSTERIOR_BINS = 20
POSTERIOR_LEVELS = (0.5, 0.9, 0.99)
FDR_LEVELS = (0.01, 0.05, 0.1, 0.2)
TAIL = 0.002  # fraction of rows at either end that may lie outside the drawn range of scores
Z = 1.96
MIN_PURITIES, MAX_PURITIES = 3, 100  # that are drawn
MIN_FACTORS, MAX_FACTORS = 2, 100  # between rates of labeling that are drawn
MAX_LOG_ODDS = 5.0  # decades of odds that are drawn on either side of even odds
EVIDENCE_TICKS = (0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
LARGEST_GROUPS = 20
MAX_LABELS, MAX_CANDIDATES = 20, 200  # that are listed
MAX_WARNINGS = 50

# What depends on the class of the labeled rows.
WORDS = {
    "positive": {
        "labeled_set": "labeled",
        "truly": "truly are",
        "best": "best",
        "best_scoring": "best-scoring",
        "end": "top",
        "limit": "the lower end of α rises",
        "unlabeled_can_be": "positive",
        "labeled_positives": "β",
    },
    "negative": {
        "labeled_set": "labeled as negatives",
        "truly": "truly are negative",
        "best": "lowest-scoring",
        "best_scoring": "lowest-scoring",
        "end": "bottom",
        "limit": "the upper end of α falls",
        "unlabeled_can_be": "negative",
        "labeled_positives": f"1{NBSP}−{NBSP}β",
    },
}
LINES = {"labeled": "labeled rows", "unlabeled": "unlabeled rows", "known": "known negatives"}
LIKELIHOODS = {
    "alpha_plus": ("α⁺", "how much of the labeled distribution fits into the unlabeled one"),
    "beta_plus": ("β⁺", "how much of the unlabeled distribution fits into the labeled one"),
}
COLUMN_KINDS = {"number": "numeric", "boolean": "true/false", "category": "categorical"}


WORDING = Wording("α", "β")


def sample_page(
    prior: Prior,
    calibration: Calibration,
    posterior: Mapping[str, Any],
    bounds: tuple[FloatArray, FloatArray] | None = None,
    *,
    target_alpha: float | None = None,
    listed: ListedRows | None = None,
    provenance: Provenance | None = None,
    sources: Iterable[InputFile] = (),
    thresholds: Thresholds | None = None,
    thresholds_first: bool = False,
    groups: Groups | None = None,
    accepted: Mapping[str, Callable[[float], int]] | None = None,
    steps: Sequence[str] = (),
) -> Page:
    """The report of one sample.

    Parameters
    ----------
    prior
        It must hold an estimate.
    calibration
        In the population of the unlabeled rows.
    posterior
        The columns `posterior` and `fdr` of POSTERIOR by cell, each of shape (cells,), in the
        population with `target_alpha` positives.
    bounds
        One-sided 95% bounds on the posterior, both of shape (cells,).
    listed
        Candidates, and labels to check.
    thresholds_first
        The thresholds are the main result.
    sources
        The files that the report itself is made from.
    accepted
        For each level of matches, how many are accepted up to a q-value.
    steps
        What would narrow the interval of α.
    """
    assert prior.alpha is not None
    assert prior.beta is not None
    sketch, p, fdr = calibration.sketch, posterior["posterior"], posterior["fdr"]
    drawn = score_range(sketch)
    cells = _curve_cells(sketch, *drawn)
    by_score = {
        "score": sketch.scores[cells],
        "posterior": p[cells],
        "posterior_labeled": calibration.posterior_labeled[cells],
        "fdr": fdr[cells],
    }
    if bounds is not None:
        by_score |= {"low": bounds[0][cells], "high": bounds[1][cells]}
    alpha = Proportion.from_estimate(prior.alpha, prior.alpha_ci)
    beta = Proportion.from_estimate(prior.beta, prior.beta_ci)
    # None: the population of the unlabeled rows
    population_alpha = target_alpha
    if target_alpha is None and not sketch.n_unlabeled:
        population_alpha = prior.alpha
    population = ""  # that posteriors are for, to follow a noun
    if population_alpha is not None:
        population = f" in a population with {percent(population_alpha)} positives"
    auc = prior.auc if sketch.n_unlabeled else corrected_auc(calibration)
    rocs, score_title = _observed_rocs(sketch), "score"
    notices = [*prior.notices, *calibration.notices]
    if provenance is not None:
        notices = [*provenance.warnings, *notices]
        score_title = shortened(provenance.score_column or "score")
    axis_title = score_title + (" (opposite sign)" if _is_negated(provenance) else "")
    charts = {
        "assumption": [*_selection(prior, calibration), *_assumption(prior, calibration)],
        "scores": _distributions(calibration, drawn, axis_title),
        "roc": [_roc_chart(calibration, rocs, auc)],
        "curves": _likelihoods(prior, sketch),
        "methods": _methods(prior),
        "posterior": [
            _calibration(calibration),
            _posterior_by_score(by_score, axis_title, population),
            *_posteriors(sketch, p, population),
        ],
        "evidence": _evidence(thresholds, calibration, cells, score_title),
    }
    values = {
        "prior": prior,
        "sketch": sketch,
        "labeled_class": sketch.labeled_class,
        "words": WORDS[sketch.labeled_class],
        "is_stated": prior.method == STATED,
        "alpha": alpha,
        "beta": beta,
        "wide": [symbol for symbol, one in (("α", alpha), ("β", beta)) if one.is_wide],
        "fixed_beta": fixed_beta(prior),
        "checks": _checks(prior, auc, alpha, len(explain(notices))),
        "certainty": certainty(prior, WORDING),
        "steps": steps,
        "is_likely": prior.alpha_ci is not None and prior.draws,
        "is_contradicted": is_contradicted(prior),
        "is_purity_used": _is_purity_used(prior),
        "is_selection_drawn": any(chart.name == "selection" for chart in charts["assumption"]),
        "is_purity_drawn": any(chart.name == "assumption" for chart in charts["assumption"]),
        "warnings": explain(notices),
        "max_warnings": MAX_WARNINGS,
        "is_beyond_axis": sketch.scores[0] < drawn[0] or sketch.scores[-1] > drawn[1],
        "rocs": rocs,
        "auc": auc,
        "target_alpha": target_alpha,
        "population_alpha": population_alpha,
        "population": population,
        "is_bounded": bounds is not None,
        "calls_by_posterior": [_calls(calibration, p >= x, fdr, x) for x in POSTERIOR_LEVELS],
        "calls_by_fdr": [_calls(calibration, fdr <= x, fdr, x) for x in FDR_LEVELS],
        "accepted": [(x, [count(x) for count in (accepted or {}).values()]) for x in FDR_LEVELS],
        "levels": list(accepted or ()),
        "thresholds": thresholds,
        "thresholds_first": thresholds_first,
        "begins": begins,
        "groups": groups,
        "largest_groups": [] if groups is None else groups.largest(LARGEST_GROUPS),
        "labels": _listed(None if listed is None else listed.labels.table, MAX_LABELS),
        "provenance": provenance,
        "options": [],
        "sources": list(sources),
    }
    if provenance is not None:
        values |= _provenance_values(provenance)
    return Page("sample.html", "punoise report", charts, values)


def _is_negated(provenance: Provenance | None) -> bool:
    """Whether the scores are those of a column with the opposite sign."""
    if provenance is None or provenance.score_column is None:
        return False
    return provenance.options.get("lower_is_positive") is True


def explain(notices: Iterable[Notice]) -> list[tuple[Notice, Kind]]:
    """Each warning once, with its meaning and remedy; other versions have codes of their own."""
    known = kinds()
    unknown = Kind(
        "A warning of another version of punoise.",
        "See the list of warnings in that version's documentation.",
    )
    return [(notice, known.get(notice.code, unknown)) for notice in dict.fromkeys(notices)]


# ---- Whether the answer can be used

GOOD_AUC, POOR_AUC = 0.8, 0.65  # of positives against negatives: above and below, the score ranks
NARROW = 0.5  # of α: an interval up to this wide
# what is said of the labeled rows
REPRESENTATIVE = {
    "assumed": ("not checked", "Your call: the data cannot show it. Verified rows can."),
    "checked": ("checked", "Verified rows do not contradict it."),
    "contradicted": ("no", "Verified rows contradict it, so the limits are left out."),
    None: ("not needed", "This alpha does not assume it."),
}


def _checks(
    prior: Prior, auc: float | None, alpha: Proportion, n_warnings: int
) -> list[tuple[str, str, str]]:
    """What to look at before the answer is used: a question, a short answer and why."""
    separates = ("unknown", "")
    if auc is not None:
        good = "yes" if auc >= GOOD_AUC else "a little" if auc >= POOR_AUC else "hardly"
        separates = (good, f"AUC {auc:.3f} of positives against negatives (1 is perfect).")
    narrow = ("none", "Alpha was stated." if prior.method == STATED else "There is none.")
    if prior.alpha_ci is not None:
        low, high = prior.alpha_ci
        width = f"{100 * (high - low):.1f} percentage points."
        is_narrow = high - low <= NARROW * alpha.value
        narrow = ("no" if alpha.is_wide else "yes" if is_narrow else "moderately", width)
    fired = ("none", "No automatic check fired.")
    if n_warnings:
        fired = (str(n_warnings), "Read them below.")
    return [
        ("Does the score separate positives from negatives?", *separates),
        ("Is the interval of α narrow?", *narrow),
        (f"Are the labeled {prior.labeled_class}s representative?", *_representative(prior)),
        ("Are there warnings?", *fired),
    ]


def _representative(prior: Prior) -> tuple[str, str]:
    if prior.method == STATED:
        return "not checked", "Posteriors assume it."
    return REPRESENTATIVE[prior.representative]


# ---- What the answer assumes


def _selection(prior: Prior, calibration: Calibration) -> list[Chart]:
    """The upper limit of α by how unequally positives are labeled."""
    pairs = prior.alpha_max_by_selection or ()
    if len(pairs) < MIN_FACTORS or not calibration.shares.from_these_rows:
        return []
    listed = "; ".join(f"{percent(limit)} at {factor:g}" for factor, limit in pairs[:MAX_FACTORS])
    columns = dict(
        zip(("factor", "limit"), map(list, zip(*pairs[:MAX_FACTORS], strict=True)), strict=True)
    )
    return [
        Chart(
            "selection",
            "selection",
            "The limit of α if positives were labeled at unequal rates",
            f"The upper 95% limit of α by the factor between rates of labeling and their mean: "
            f"{listed}.",
            as_rows(columns),
        )
    ]


def _is_purity_used(prior: Prior) -> bool:
    assumed = prior.assumed
    return assumed is not None and assumed.purity >= LITTLE and not is_contradicted(prior)


def _assumption(prior: Prior, calibration: Calibration) -> list[Chart]:
    """The interval of α by the purity assumed, where there are enough of them for a curve."""
    assumed, sketch = prior.assumed, calibration.sketch
    if assumed is None or not prior.draws or not calibration.shares.from_these_rows:
        return []
    labeled_class, words = sketch.labeled_class, WORDS[sketch.labeled_class]
    intervals = {purity: (low, high) for purity, low, high in assumed.sensitivity}
    if len(intervals) < MIN_PURITIES:
        return []
    is_used = _is_purity_used(prior)
    if is_used and prior.alpha_ci is not None:
        intervals[assumed.purity] = prior.alpha_ci
    purities = sorted(intervals)[:: -(-len(intervals) // MAX_PURITIES)]
    low = [lower_end(intervals[purity]) for purity in purities]
    high = [intervals[purity][1] for purity in purities]
    rows = as_rows({"purity": purities, "low": low, "high": high})
    ends = "; ".join(
        f"{percent_range(row['low'], row['high'])} at {percent(row['purity'])}"
        for row in (rows[0], rows[-1])
    )
    alt = (
        f"The 95% interval of α by the least share of {labeled_class}s assumed among the "
        f"{words['best_scoring']} unlabeled rows: {ends}."
    )
    if is_used:
        alt += f" Assumed here: {percent(assumed.purity)}."
    purity_title = f"least share of {labeled_class}s assumed at the {words['end']}"
    return [
        Chart(
            "assumption",
            "sensitivity",
            "How the interval of α depends on the assumed purity",
            alt,
            rows,
            {"assumed": is_used, "purity_title": purity_title},
            {"assumed": [{"purity": rounded(assumed.purity)}]},
        )
    ]


# ---- How α and β were estimated


def _methods(prior: Prior) -> list[Chart]:
    """α and β by each method that ran."""
    charts = []
    for name, symbol in (("alpha", "α"), ("beta", "β")):
        lines = [
            (
                one.method,
                Proportion.from_estimate(getattr(one, name), getattr(one, f"{name}_ci")),
                one.method == prior.method,
            )
            for one in prior.estimates
        ]
        charts.append(forest(f"methods-{name}", f"{symbol} by method", symbol, lines))
    return charts if prior.estimates else []


def _likelihoods(prior: Prior, sketch: Sketch) -> list[Chart]:
    """AlphaMax's log-likelihood in both directions, with its elbow and the answer's value."""
    charts = []
    own = elbows(prior, sketch)
    for name, (symbol, title) in LIKELIHOODS.items():
        curve = (prior.curves or {}).get(name)
        if curve is None or not curve.proportion:
            continue
        order = np.argsort(curve.proportion, kind="stable")
        order = order[:: -(-len(order) // MAX_LIKELIHOOD_POINTS)]
        x, y = (np.array(values)[order] for values in (curve.proportion, curve.log_likelihood))
        marks = {
            f"{symbol} of the answer ({shortened(prior.method, 20)})": getattr(prior, name),
            "AlphaMax's elbow (alphamax-n)": own.get(name),
        }
        marks = {mark: value for mark, value in marks.items() if value is not None}
        # log-likelihoods in full: the elbow is a matter of a few units among millions
        points = [
            {"mark": mark, "x": rounded(at), "y": round(float(np.interp(at, x, y)), 2)}
            for mark, at in marks.items()
        ]
        listed = "; ".join(f"{point['mark']}: {point['x']:.3g}" for point in points)
        rows = zip(x.tolist(), y.tolist(), strict=True)
        charts.append(
            Chart(
                f"likelihood-{name.replace('_', '-')}",
                "likelihood",
                f"{symbol}: {title}",
                f"AlphaMax's log-likelihood by {symbol}, flat at first and falling beyond the "
                f"elbow. {listed}.",
                [{"x": rounded(at), "y": round(value, 2)} for at, value in rows],
                {"symbol": symbol, "points": [*marks], "two_points": len(marks) > 1},
                {"points": points},
            )
        )
    return charts


# ---- The score


def score_range(sketch: Sketch) -> tuple[float, float]:
    """The scores to draw: [0, 1] where they fill it, else those of nearly all rows."""
    x = sketch.scores.clip(-1e300, 1e300)  # so that differences are finite
    low, high = float(x[0]), float(x[-1])
    samples = [rows for rows in (sketch.labeled, sketch.unlabeled, sketch.negative) if rows.any()]
    rank = np.cumsum(np.sum([rows / rows.sum() for rows in samples], axis=0)) / len(samples)
    inner_low, inner_high = x[np.searchsorted(rank, [TAIL, 1 - TAIL]).clip(0, len(x) - 1)]
    if low >= 0 and high <= 1 and inner_high - inner_low > 0.3:
        return 0.0, 1.0
    if high - low > 1.5 * (inner_high - inner_low) > 0:
        low, high = float(inner_low), float(inner_high)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = max(abs(low), 1.0) / 2
        return low - room, high + room
    return low, high


def binned(sketch: Sketch, weights: Weights, edges: FloatArray) -> FloatArray:
    """Sums of the weights of cells over bins, shape (bins,); the end bins hold what is beyond."""
    if sketch.level == 0:
        bins = np.searchsorted(edges, sketch.scores, side="right") - 1
        bins = bins.clip(0, len(edges) - 2)
        return np.bincount(bins, weights, len(edges) - 1).astype(np.float64)
    # cells have a width here: those that straddle an edge are divided between the bins
    below = np.interp(edges[1:-1], sketch.scores, mid_ranks(weights))
    return np.diff(np.concatenate([[0.0], below, [weights.sum()]]))


def _distributions(
    calibration: Calibration, drawn: tuple[float, float], score_title: str
) -> list[Chart]:
    """The scores of each sample as the sum of its positives and negatives.

    Without unlabeled rows, the population with the stated α stands for them.
    """
    sketch, shares = calibration.sketch, calibration.shares
    edges = np.linspace(*drawn, SCORE_BINS + 1)
    sets = {"labeled": sketch.labeled, "unlabeled": sketch.unlabeled, "known": sketch.negative}
    counts = {name: binned(sketch, rows, edges) for name, rows in sets.items() if rows.any()}
    heights = {name: rows / rows.sum() for name, rows in counts.items()}
    first = "unlabeled" if sketch.n_unlabeled else "population"
    charts = []
    for sample, rows, p, fraction in (
        (first, calibration.population, calibration.posterior, shares.alpha),
        ("labeled", sketch.labeled, calibration.posterior_labeled, shares.beta),
    ):
        total = binned(sketch, rows, edges) / rows.sum()
        positive = (binned(sketch, rows * p, edges) / rows.sum()).clip(0, total)
        lines = {name: height for name, height in heights.items() if name != sample}
        columns = {
            "low": edges[:-1],
            "high": edges[1:],
            "middle": (edges[:-1] + edges[1:]) / 2,
            "total": total,
            "positive": positive,
            "negative": total - positive,
            **lines,
        }
        charts.append(_distribution(sample, fraction, columns, lines, score_title))
        tallest = max(float(height.max()) for height in (total, *lines.values()))
        if sample != "labeled" and 0 < positive.max() < MIN_VISIBLE * tallest:
            charts.append(_enlarged(charts[-1], ENLARGED_HEIGHT * float(positive.max())))
    return charts


def _distribution(
    sample: str, fraction: float, columns: dict[str, Any], lines: Iterable[str], score_title: str
) -> Chart:
    rows, others = as_rows(columns), [LINES[name] for name in lines]
    subject, total_title = f"the {sample} rows", f"{sample} rows"
    if sample == "population":
        subject, total_title = f"a population with {percent(fraction)} positives", "all rows"
    return Chart(
        f"scores-{sample}",
        "scores",
        f"Scores of {subject}",
        f"Histogram of the scores of {subject}, split into the estimated positives, "
        f"{percent(fraction)} of the area, and negatives, with the scores of the "
        f"{' and of the '.join(others)} as {'a line' if len(others) == 1 else 'lines'}.",
        rows,
        {
            "score_title": score_title,
            "total_title": total_title,
            "domain": [rows[0]["low"], rows[-1]["high"]],
            **{f"{name}_line": name in columns for name in LINES},
        },
    )


def _enlarged(chart: Chart, top: float) -> Chart:
    """A histogram whose positives are too few to be seen, cut at a height."""
    subject = chart.title.removeprefix("Scores of ")
    among = "in" if chart.name == "scores-population" else "among"
    return Chart(
        chart.name.replace("scores", "positives"),
        "positives",
        f"Positives {among} {subject}, enlarged",
        f"The same histogram of {subject} with its vertical axis cut at {percent(top)} of the "
        "rows, so that the few positives can be seen.",
        # cut here, as Vega numbers clipped marks by how many it has drawn
        [row | {"cut": min(row["total"], rounded(top))} for row in chart.rows],
        chart.values | {"top": rounded(top)},
    )


def _roc(scores: FloatArray, upper: Weights, lower: Weights) -> dict[str, Any]:
    """The ROC curve of two weights of the cells, at well-spread points."""
    y = np.append(0.0, np.cumsum(upper[::-1]) / upper.sum())
    x = np.append(0.0, np.cumsum(lower[::-1]) / lower.sum())
    threshold = np.append(scores[-1], scores[::-1])
    chosen = _spread((x + y) / 2, CURVE_POINTS)
    return {
        "i": range(len(chosen)),
        "threshold": threshold[chosen],
        "x": x[chosen].clip(0, 1),
        "y": y[chosen].clip(0, 1),
    }


def _observed_rocs(sketch: Sketch) -> list[dict[str, Any]]:
    """Samples against each other, the one with more positives first."""
    pairs = [(LABELED, UNLABELED), (LABELED, NEGATIVE)]
    if sketch.labeled_class == "negative":
        pairs = [(UNLABELED, LABELED)]
    return [
        {
            "upper": SETS[upper],
            "lower": SETS[lower],
            "curve": _roc(sketch.scores, sketch.counts[:, upper], sketch.counts[:, lower]),
            "auc": sketch.auc_against(lower) if upper == LABELED else 1 - sketch.auc_against(upper),
        }
        for upper, lower in pairs
        if sketch.counts[:, lower].any()
    ]


def _roc_chart(calibration: Calibration, rocs: list[dict[str, Any]], auc: float | None) -> Chart:
    """The observed ROC curves, and that of the classes behind them.

    There a row counts as p positives and 1 - p negatives.
    """
    recovered = "positives against negatives (recovered)"
    curves, aucs = {}, []
    for roc in rocs:
        lower = "known negatives" if roc["lower"] == "negative" else roc["lower"]
        name = f"{roc['upper']} against {lower} (observed)"
        curves[name] = roc["curve"]
        aucs.append(f"{name}: AUC {roc['auc']:.3f}")
    rows, p = calibration.population, calibration.posterior
    positives, negatives = rows * p, rows * (1 - p)
    titles = [*curves, recovered]
    if min(positives.sum(), negatives.sum()) > 0:
        curves[recovered] = _roc(calibration.sketch.scores, positives, negatives)
        if auc is not None:
            aucs.append(f"{recovered}: AUC {auc:.3f}")
    against = [roc["lower"] for roc in rocs]
    lower = "negatives" if against[0] == "negative" else f"{against[0]} rows (negatives)"
    return Chart(
        "roc",
        "roc",
        "ROC curves",
        f"ROC curves. {'; '.join(aucs)}.",
        [{"curve": name, **row} for name, curve in curves.items() for row in as_rows(curve)],
        {
            "x_title": f"{lower} above the threshold",
            "y_title": f"{rocs[0]['upper']} rows (positives) above it",
            "curves": titles,
            "against_unlabeled": {*against} != {"negative"},
            "against_known": "negative" in against,
        },
    )


def _spread(position: FloatArray, points: int) -> NDArray[np.intp]:
    """Indices of values of a sorted array that lie evenly over its range, with both ends."""
    even = np.linspace(position[0], position[-1], points)
    nearest = np.searchsorted(position, even).clip(0, len(position) - 1)
    return np.unique(np.concatenate([[0], nearest, [len(position) - 1]]))


def _curve_cells(sketch: Sketch, low: float, high: float) -> NDArray[np.intp]:
    """The cells at which curves over the score are drawn: even in score and in rank."""
    by_score = np.searchsorted(sketch.scores, np.linspace(low, high, CURVE_POINTS // 2))
    by_rank = _spread(np.cumsum(sketch.counts.sum(1)), CURVE_POINTS // 2)
    cells = np.unique(np.concatenate([by_score, by_rank]).clip(0, len(sketch.scores) - 1))
    inside = (sketch.scores[cells] >= low) & (sketch.scores[cells] <= high)
    return cells[inside] if inside.any() else cells


# ---- Posteriors


def _calibration(calibration: Calibration) -> Chart:
    """The predicted labeled fraction against the observed one, with Wilson intervals.

    Rows are in about twenty groups of even size by score. Without unlabeled rows, labeled rows are
    compared with known negatives.
    """
    sketch = calibration.sketch
    rows = sketch.labeled + (sketch.unlabeled if sketch.n_unlabeled else sketch.negative)
    here = rows > 0
    labeled, rows, rate = sketch.labeled[here], rows[here], _labeled_rate(calibration)[here]
    _, group = np.unique(
        np.floor(relative_mid_ranks(rows) * RELIABILITY_GROUPS), return_inverse=True
    )
    n = np.bincount(group, rows).astype(np.float64)
    predicted, observed = np.bincount(group, rows * rate) / n, np.bincount(group, labeled) / n
    middle = (observed + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(observed * (1 - observed) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    low, high = (middle - half).clip(0, 1), (middle + half).clip(0, 1)
    columns = {"predicted": predicted, "observed": observed, "low": low, "high": high, "rows": n}
    inside = int(((low <= predicted) & (predicted <= high)).sum())
    top = rounded(float(max(high.max(), predicted.max())))
    against, tau = ("", " (tau)") if sketch.n_unlabeled else (", against known negatives", "")
    return Chart(
        "calibration",
        "calibration",
        f"Calibration: predicted and observed share of labeled rows{against}",
        f"{len(n)} groups of rows by score; in {inside} of them the predicted share of labeled "
        f"rows{against and against + ','} lies within the 95% interval of the observed share.",
        as_rows(columns),
        {"x_title": f"predicted labeled share{tau}"},
        {"diagonal": [{"predicted": end, "observed": end} for end in (0, top)]},
    )


def _labeled_rate(calibration: Calibration) -> FloatArray:
    """The fraction of labeled rows that the calibration predicts, shape (cells,)."""
    sketch, beta = calibration.sketch, calibration.shares.beta
    if sketch.n_unlabeled:
        return calibration.tau
    density = beta * calibration.lr + 1 - beta  # of labeled rows, relative to that of negatives
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 + sketch.n_negative / (sketch.n_labeled * density)))


def _posterior_by_score(columns: dict[str, Any], score_title: str, population: str) -> Chart:
    """The probability by score that an unlabeled and that a labeled row is positive."""
    rows = as_rows(columns)
    subject, title = "an unlabeled row", "posterior, unlabeled row"
    if population:
        subject, title = f"a row{population}", "posterior in that population"
    half = next((row["score"] for row in rows if row["posterior"] >= 0.5), None)
    reached = "never reaches one half"
    if half is not None:
        reached = f"is at least one half from a score of {half:.3g} up"
    band = " A band shows one-sided 95% bounds on the former." if "low" in columns else ""
    return Chart(
        "posterior-by-score",
        "posterior_by_score",
        f"Posterior by score{population}",
        f"Probability by score that {subject} is positive, and that a labeled row is. "
        f"The former {reached}.{band}",
        rows,
        {
            "score_title": score_title,
            "posterior_title": title,
            "row": subject,
            "bounds": "low" in columns,
        },
    )


def _posteriors(sketch: Sketch, posterior: FloatArray, population: str) -> list[Chart]:
    """How many unlabeled rows have which posterior, if there are any."""
    if not sketch.n_unlabeled:
        return []
    bins = np.floor(posterior * POSTERIOR_BINS).astype(int).clip(0, POSTERIOR_BINS - 1)
    counts = np.bincount(bins, sketch.unlabeled, POSTERIOR_BINS).astype(int)
    half, edges = counts[POSTERIOR_BINS // 2 :].sum(), np.linspace(0, 1, POSTERIOR_BINS + 1)
    return [
        Chart(
            "posteriors",
            "posteriors",
            f"Posteriors of the unlabeled rows{population}",
            f"Histogram of the posteriors of the unlabeled rows{population}; "
            f"{half:,} are at least 0.5.",
            as_rows({"low": edges[:-1], "high": edges[1:], "rows": counts}),
        )
    ]


def _calls(
    calibration: Calibration, passes: NDArray[np.bool_], fdr: FloatArray, level: float
) -> dict[str, Any]:
    """The rows in the cells that pass, which are all from a lowest score up.

    With the fraction of positives expected among such rows, None without rows.
    """
    cells = np.flatnonzero(passes & (calibration.population > 0))
    rows = calibration.sketch.counts[passes if len(cells) else cells].sum(0).tolist()
    return {
        "level": level,
        **dict(zip(SETS, rows, strict=True)),
        "positive_fraction": 1 - float(fdr[cells[0]]) if len(cells) else None,
        "lowest_score": float(calibration.sketch.scores[cells[0]]) if len(cells) else None,
    }


def _evidence(
    thresholds: Thresholds | None,
    calibration: Calibration,
    cells: NDArray[np.intp],
    score_title: str,
) -> list[Chart]:
    """The posterior by score with the levels of evidence, if asked for, at the prior of the levels.

    The axis is even in the odds, which evidence multiplies; its labels are probabilities.
    """
    if thresholds is None:
        return []
    sign = -1.0 if thresholds.lower_is_positive else 1.0
    low, high = thresholds.bounds.at(thresholds.prior)
    posterior = posterior_at(calibration.lr, thresholds.prior)
    values = {"posterior": posterior[cells], "low": low[cells], "high": high[cells]}
    order = np.argsort(sign * calibration.sketch.scores[cells], kind="stable")
    columns = {
        "score": sign * calibration.sketch.scores[cells] + 0.0,
        **values,
        **{f"{name}_odds": _log_odds(column) for name, column in values.items()},
    }
    levels = [
        {"score": one.reached.score_from, "level": one.level.code, "against": one.level.against}
        for one in thresholds.levels
        if one.reached is not None
    ]
    listed = "; ".join(
        f"{shortened(one.level.code)} {begins(one, thresholds)}" for one in thresholds.levels
    )
    return [
        Chart(
            "evidence",
            "evidence",
            f"Evidence by score, at a prior of {percent(thresholds.prior)}",
            f"The posterior by score with one-sided 95% bounds, and where levels begin: {listed}.",
            as_rows({name: column[order] for name, column in columns.items()}),
            {"score_title": score_title, "ticks": _log_odds(np.array(EVIDENCE_TICKS)).tolist()},
            {"levels": levels},
        )
    ]


def _log_odds(p: FloatArray) -> FloatArray:
    """Decimal logarithms of odds, as far as they are drawn."""
    with np.errstate(divide="ignore"):
        return (np.log10(p) - np.log10(1 - p)).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS)


def begins(threshold: Threshold, thresholds: Thresholds) -> str:
    """The scores at which a level begins, or that it is not reached."""
    if threshold.reached is None:
        return "out of reach" if thresholds.is_out_of_reach(threshold.level) else "not reached"
    sign = "≤" if threshold.level.against != thresholds.lower_is_positive else "≥"
    return f"{sign} {number(threshold.reached.score_from)}"


# ---- Rows


@dataclass(frozen=True)
class ListedTable:
    """Rows of a table as text: names of columns, and cells that are text or numbers."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    total: int  # rows, shown or not


def _listed(table: pa.Table | None, limit: int) -> ListedTable:
    """The first rows of a table."""
    if table is None:
        return ListedTable((), [], 0)
    first = table.slice(0, limit).to_pydict()
    return ListedTable(tuple(first), list(zip(*first.values(), strict=True)), table.num_rows)


# ---- Provenance


def _provenance_values(provenance: Provenance) -> dict[str, Any]:
    """Options, files first and without their directories; the command line; kinds of columns."""
    tables = [entry.table for entry in provenance.inputs]
    files = {name: base_name(v) for name, v in provenance.options.items() if v in tables}
    options = files | {name: v for name, v in provenance.options.items() if name not in files}
    column_kinds: dict[str, set[str]] = {}
    for column in provenance.columns:
        kind = COLUMN_KINDS.get(column.kind or "", "of another kind")
        column_kinds.setdefault(kind, set()).add(column.column)
    return {
        "options": [(name, _option_text(value)) for name, value in options.items()][:MAX_LISTED],
        "command": shlex.join(command_words(options)),
        "column_kinds": column_kinds,
    }


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
            if value and all(isinstance(item, float) for item in value):
                words += [option, *map(str, value)]  # the ends of a range
                continue
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


# ---- Histograms on a terminal

BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"  # the plain ones are for terminals without UTF-8


def histogram_lines(sketch: Sketch, blocks: str = BLOCKS, width: int = 60) -> list[str]:
    """The scores of each set as a line of blocks, each to its own height, over one axis."""
    edges = np.linspace(*score_range(sketch), width + 1)
    low, high = f"{edges[0]:.3g}", f"{edges[-1]:.3g}"
    axis = low + "score".center(width - len(low) - len(high)) + high
    sets = {
        "unlabeled": sketch.unlabeled,
        "labeled": sketch.labeled,
        "negatives": sketch.negative,
    }

    def draw(rows: IntArray) -> str:
        counts = binned(sketch, rows, edges)
        # rounded up: a bin with any row is never blank
        heights = np.ceil(counts / max(counts.max(), 1e-300) * (len(blocks) - 1)).astype(int)
        return "".join(blocks[height] for height in heights)

    lines = [f"{name:<11}{draw(rows)}" for name, rows in sets.items() if rows.any()]
    return [*lines, f"{'':<11}{axis}"]
