"""The charts of one sample, each from plain numbers, and its histogram on a terminal.

Time and memory depend on the number of cells of the sketch, not on that of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray, IntArray, expit, logit, mid_ranks, relative_mid_ranks
from ..posterior.calibration import Calibration
from ..posterior.groups import Groups
from ..prior.document import LITTLE, Prior, is_contradicted, lower_end, percent
from ..prior.estimation import elbows
from ..score.contributions import Contribution
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED
from .page import (
    Chart,
    Proportion,
    as_rows,
    distinct,
    forest,
    percent_range,
    rounded,
    shortened,
)

Weights = FloatArray | IntArray  # of the cells of a sketch, shape (cells,)

SCORE_BINS = 64  # a power of two: then the cells of scores in [0, 1] fall whole into bins
PILED_UP = 0.5  # of the rows of a set in one bin: then an axis in the logit shows more
MIN_SCORES = 20  # different ones between 0 and 1, for such an axis
LOGIT_TICKS = (1e-5, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
MIN_VISIBLE = 0.05  # of the height of a chart: lower bars are drawn once more, enlarged
ENLARGED_HEIGHT = 1.3  # of an enlarged chart, in units of its tallest bar of positives
CURVE_POINTS = 160
MAX_LIKELIHOOD_POINTS = 500
RELIABILITY_GROUPS = 20
POSTERIOR_BINS = 20
TAIL = 0.002  # fraction of rows at either end that may lie outside the drawn range of scores
Z = 1.96
MIN_PURITIES, MAX_PURITIES = 3, 100  # that are drawn
MIN_FACTORS, MAX_FACTORS = 2, 100  # between rates of labeling that are drawn
LARGEST_GROUPS = 20
MAX_NAMED = 5  # columns in the text of a chart
NBSP = "\u00a0"

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


# ---- The axis of scores


@dataclass(frozen=True)
class ScoreAxis:
    """The scores that are drawn: evenly, or by their logits where they pile up near 0 or 1."""

    low: float
    high: float
    title: str = "score"
    is_logit: bool = False

    @classmethod
    def from_sketch(cls, sketch: Sketch, title: str = "score") -> ScoreAxis:
        """The axis on which the scores of all sets can be seen."""
        low, high = score_range(sketch)
        axis = cls(low, high, title)
        inside = sketch.scores[(sketch.scores > 0) & (sketch.scores < 1)]
        if (low, high) != (0.0, 1.0) or len(inside) < MIN_SCORES:
            return axis
        ends = logit(np.quantile(inside, [0.0, 1.0])).clip(-12, 12)
        first, last = (float(end) for end in expit(ends))
        logits = cls(first, last, title, is_logit=True)
        piled = [max(_tallest(sketch, one.edges(SCORE_BINS))) for one in (axis, logits)]
        return logits if PILED_UP < piled[0] > 2 * piled[1] else axis

    def place(self, scores: FloatArray) -> FloatArray:
        """Where scores are drawn, same shape."""
        return logit(scores.clip(self.low, self.high)) if self.is_logit else scores

    def edges(self, bins: int) -> FloatArray:
        """The scores between bins of equal width, shape (bins + 1,)."""
        low, high = self.place(np.array([self.low, self.high]))
        even = np.linspace(low, high, bins + 1)
        return expit(even) if self.is_logit else even

    @property
    def spec(self) -> dict[str, Any]:
        """The axis in a specification."""
        if not self.is_logit:
            return {"grid": False, "format": "~g"}
        ticks = [t for t in LOGIT_TICKS if self.low <= t <= self.high]
        return {
            "grid": False,
            "values": [rounded(float(value)) for value in logit(np.array(ticks))],
            "labelExpr": "format(1 / (1 + exp(-datum.value)), '.5~f')",
        }


def score_range(sketch: Sketch) -> tuple[float, float]:
    """The scores to draw: [0, 1] where they fill it, else those of nearly all rows."""
    x = sketch.scores.clip(-1e300, 1e300)  # so that differences are finite
    low, high = float(x[0]), float(x[-1])
    samples = _samples(sketch)
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


def _samples(sketch: Sketch) -> list[IntArray]:
    return [rows for rows in (sketch.labeled, sketch.unlabeled, sketch.negative) if rows.any()]


def _tallest(sketch: Sketch, edges: FloatArray) -> list[float]:
    """The largest fraction of each set in one bin."""
    return [float(binned(sketch, rows, edges).max() / rows.sum()) for rows in _samples(sketch)]


def binned(sketch: Sketch, weights: Weights, edges: FloatArray) -> FloatArray:
    """Sums of the weights of cells over bins, shape (bins,); the end bins hold what is beyond."""
    if sketch.level == 0:
        bins = np.searchsorted(edges, sketch.scores, side="right") - 1
        bins = bins.clip(0, len(edges) - 2)
        return np.bincount(bins, weights, len(edges) - 1).astype(np.float64)
    # cells have a width here: those that straddle an edge are divided between the bins
    below = np.interp(edges[1:-1], sketch.scores, mid_ranks(weights))
    return np.diff(np.concatenate([[0.0], below, [weights.sum()]]))


# ---- Why: the scores and the posteriors


def distributions(calibration: Calibration, axis: ScoreAxis) -> list[Chart]:
    """The scores of each sample as the sum of its positives and negatives.

    Without unlabeled rows, the population with the stated α stands for them.
    """
    sketch, shares = calibration.sketch, calibration.shares
    edges = axis.edges(SCORE_BINS)
    places = axis.place(edges)
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
            "left": places[:-1],
            "right": places[1:],
            "middle": (places[:-1] + places[1:]) / 2,
            "total": total,
            "positive": positive,
            "negative": total - positive,
            **lines,
        }
        charts.append(_distribution(sample, fraction, columns, lines, axis))
        tallest = max(float(height.max()) for height in (total, *lines.values()))
        if sample != "labeled" and 0 < positive.max() < MIN_VISIBLE * tallest:
            charts.append(_enlarged(charts[-1], ENLARGED_HEIGHT * float(positive.max())))
    return charts


def _distribution(
    sample: str, fraction: float, columns: dict[str, Any], lines: Iterable[str], axis: ScoreAxis
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
            "score_title": axis.title,
            "score_axis": axis.spec,
            "total_title": total_title,
            "domain": [rows[0]["left"], rows[-1]["right"]],
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


def curve_cells(sketch: Sketch, axis: ScoreAxis) -> NDArray[np.intp]:
    """The cells at which curves over the score are drawn: even on the axis and in rank."""
    by_score = np.searchsorted(sketch.scores, axis.edges(CURVE_POINTS // 2))
    by_rank = _spread(np.cumsum(sketch.counts.sum(1)), CURVE_POINTS // 2)
    cells = np.unique(np.concatenate([by_score, by_rank]).clip(0, len(sketch.scores) - 1))
    inside = (sketch.scores[cells] >= axis.low) & (sketch.scores[cells] <= axis.high)
    return cells[inside] if inside.any() else cells


def _spread(position: FloatArray, points: int) -> NDArray[np.intp]:
    """Indices of values of a sorted array that lie evenly over its range, with both ends."""
    even = np.linspace(position[0], position[-1], points)
    nearest = np.searchsorted(position, even).clip(0, len(position) - 1)
    return np.unique(np.concatenate([[0], nearest, [len(position) - 1]]))


def posterior_by_score(columns: dict[str, Any], axis: ScoreAxis, population: str) -> Chart:
    """The probability by score that an unlabeled and that a labeled row is positive."""
    rows = as_rows(columns | {"x": axis.place(columns["score"])})
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
            "score_title": axis.title,
            "score_axis": axis.spec,
            "posterior_title": title,
            "row": subject,
            "bounds": "low" in columns,
        },
    )


def posteriors(sketch: Sketch, posterior: FloatArray, population: str) -> list[Chart]:
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


# ---- Columns


def column_shares(
    contributions: Sequence[Contribution], separated: str = "labeled from unlabeled rows"
) -> list[Chart]:
    """What the columns contribute to a learned score."""
    if not contributions:
        return []
    names = distinct(shortened(one.column, 32) for one in contributions)
    shares = [(one.share or 0.0, one.spread or 0.0) for one in contributions]
    rows = {
        "label": names,
        "share": [share for share, _ in shares],
        "low": [share - spread for share, spread in shares],
        "high": [share + spread for share, spread in shares],
        "direction": [one.direction or "–" for one in contributions],
        "flag": [one.flag or "–" for one in contributions],
    }
    listed = "; ".join(
        f"{name} {100 * share:.0f}%"
        for name, (share, _) in zip(names[:MAX_NAMED], shares, strict=False)
    )
    return [
        Chart(
            "columns",
            "columns",
            "Share of the separation by column",
            f"The largest shares of the separation of {separated}: {listed}.",
            as_rows(rows),
            {"labels": names, "height": 22 * len(names)},
        )
    ]


# ---- Groups


def group_forest(groups: Groups) -> list[Chart]:
    """α of the largest groups, each with its interval."""
    shares, lines = groups.shares, []
    for i in groups.largest(LARGEST_GROUPS):
        interval = (float(shares.alpha_low[i]), float(shares.alpha_high[i]))
        alpha = Proportion.from_estimate(float(shares.alpha[i]), interval)
        lines.append((groups.names[i], alpha, True))
    return [forest("groups", "α by group, the largest groups", "α", lines)] if lines else []


# ---- Assumptions


def selection(prior: Prior, calibration: Calibration) -> list[Chart]:
    """The upper limit of α by how unequally positives are labeled."""
    pairs = prior.alpha_max_by_selection or ()
    if len(pairs) < MIN_FACTORS or not calibration.shares.from_these_rows:
        return []
    pairs = pairs[:MAX_FACTORS]
    listed = "; ".join(f"{percent(limit)} at Γ = {factor:g}" for factor, limit in pairs)
    rows = [
        {"factor": rounded(factor), "limit": rounded(limit), "text": percent(limit)}
        for factor, limit in pairs
    ]
    return [
        Chart(
            "selection",
            "selection",
            "The limit of α if positives were labeled at unequal rates",
            f"The upper 95% limit of α by Γ, the factor between rates of labeling and their mean: "
            f"{listed}.",
            rows,
        )
    ]


def is_purity_used(prior: Prior) -> bool:
    """Whether the interval of α rests on a stated purity."""
    assumed = prior.assumed
    return assumed is not None and assumed.purity >= LITTLE and not is_contradicted(prior)


def sensitivity(prior: Prior, calibration: Calibration) -> list[Chart]:
    """The interval of α by the purity assumed, where there are enough of them for a curve."""
    assumed, sketch = prior.assumed, calibration.sketch
    if assumed is None or not prior.draws or not calibration.shares.from_these_rows:
        return []
    labeled_class, words = sketch.labeled_class, WORDS[sketch.labeled_class]
    intervals = {purity: (low, high) for purity, low, high in assumed.sensitivity}
    if len(intervals) < MIN_PURITIES:
        return []
    is_used = is_purity_used(prior)
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
        f"The 95% interval of α by the smallest fraction of {labeled_class}s assumed among the "
        f"{words['best_scoring']} unlabeled rows: {ends}."
    )
    if is_used:
        alt += f" Assumed here: {percent(assumed.purity)}."
    labels = _end_labels(rows)
    return [
        Chart(
            "assumption",
            "sensitivity",
            "How the interval of α depends on the assumed purity",
            alt,
            rows,
            {
                "assumed": is_used,
                "purity_title": f"assumed minimum fraction of {labeled_class}s at the "
                f"{words['end']}",
            },
            {"assumed": [{"purity": rounded(assumed.purity)}], "labels": labels},
        )
    ]


def _end_labels(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Labels of the ends of an interval, beside the last points of their lines."""
    last, room = rows[-1], 0.05 * max(row["high"] for row in rows)
    is_narrow = last["high"] - last["low"] < 4 * room
    below = is_narrow and last["low"] > 2 * room
    ends = {"upper end": last["high"] - room, "lower end": last["low"] + (-room if below else room)}
    if is_narrow and not below:
        ends["upper end"] = last["high"] + room
    return [{"purity": last["purity"], "y": rounded(y), "text": text} for text, y in ends.items()]


# ---- For method reviewers


def method_forests(prior: Prior) -> list[Chart]:
    """α and β by each method, if several ran."""
    if len(prior.estimates) < 2:
        return []
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
    return charts


def likelihoods(prior: Prior, sketch: Sketch) -> list[Chart]:
    """AlphaMax's log-likelihood in both directions, with its elbow and the reported value."""
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
            f"{symbol} as reported ({shortened(prior.method, 20)})": getattr(prior, name),
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


def observed_rocs(sketch: Sketch) -> list[dict[str, Any]]:
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


def roc(calibration: Calibration, rocs: list[dict[str, Any]], auc: float | None) -> Chart:
    """The observed ROC curves, and that of the classes behind them.

    There a row counts as p positives and 1 - p negatives.
    """
    recovered = "positives against negatives (recovered)"
    curves, aucs = {}, []
    for one in rocs:
        lower = "known negatives" if one["lower"] == "negative" else one["lower"]
        name = f"{one['upper']} against {lower} (observed)"
        curves[name] = one["curve"]
        aucs.append(f"{name}: AUC {one['auc']:.3f}")
    rows, p = calibration.population, calibration.posterior
    positives, negatives = rows * p, rows * (1 - p)
    titles = [*curves, recovered]
    if min(positives.sum(), negatives.sum()) > 0:
        curves[recovered] = _roc(calibration.sketch.scores, positives, negatives)
        if auc is not None:
            aucs.append(f"{recovered}: AUC {auc:.3f}")
    against = [one["lower"] for one in rocs]
    return Chart(
        "roc",
        "roc",
        "ROC curves",
        f"ROC curves: {'; '.join(aucs)}.",
        [{"curve": name, **row} for name, curve in curves.items() for row in as_rows(curve)],
        {
            "curves": titles,
            "against_unlabeled": {*against} != {"negative"},
            "against_known": "negative" in against,
        },
    )


def score_fit(calibration: Calibration) -> Chart:
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
        f"Fit of the score model: predicted and observed fraction of labeled rows{against}",
        f"{len(n)} groups of rows by score; in {inside} of them the predicted fraction of labeled "
        f"rows{against and against + ','} lies within the 95% interval of the observed fraction.",
        as_rows(columns),
        {"x_title": f"predicted labeled fraction{tau}"},
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
